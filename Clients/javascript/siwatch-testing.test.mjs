// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { once } from "node:events";
import { existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { createServer } from "node:http";
import { tmpdir } from "node:os";
import { join } from "node:path";
import test, { after } from "node:test";

import { SimulatorRefused, startTestbed, waitUntil } from "./siwatch-testing.mjs";
import { SignInRejected, SiwatchError, verifyWebhook } from "./siwatch.mjs";

const clientId = "com.example.app";
const { apple, siwatch, webhooks, stop } = await startTestbed();
after(stop);

async function signedIn(user) {
  const { code } = await user.signIn();
  const signIn = await siwatch.client.signIn({ clientId, code });
  assert.equal(signIn.user.userId, user.userId);
  return signIn;
}

const ends = (user, { signedInAt }) => siwatch.client.endsSession(user.userId, signedInAt);

/** An endpoint of a backend. It answers with the statuses in turn, and with 200 at the end. */
async function receiver(statuses) {
  const taken = [];
  const server = createServer(async (request, response) => {
    const chunks = [];
    for await (const chunk of request) chunks.push(chunk);
    taken.push({ headers: request.headers, body: Buffer.concat(chunks) });
    response.writeHead(statuses.shift() ?? 200).end();
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  const end = () => {
    server.close();
    server.closeAllConnections?.();
  };
  return { url: `http://127.0.0.1:${server.address().port}/hook`, taken, end };
}

/** Runs `body` while the URL of a receiver is among `urls`. */
async function withReceiver(urls, statuses, body) {
  const { url, taken, end } = await receiver(statuses);
  urls.push(url);
  try {
    await body(taken);
  } finally {
    urls.splice(urls.indexOf(url), 1);
    end();
  }
}

test("a user signs in", async () => {
  const user = apple.newUser();
  const { code, email, emailIsPrivate } = await user.signIn({ nonce: "n" });
  assert.equal(emailIsPrivate, true);
  const signIn = await siwatch.client.signIn({ clientId, code, nonce: "n" });
  assert.equal(signIn.outcome, "applied");
  assert.deepEqual([signIn.user.userId, signIn.user.email], [user.userId, email]);
  assert.equal((await siwatch.waitForState(user.userId, "authorized")).reason, "granted");
  assert.equal((await user.truth()).credentials[0].exchanges, 1);
});

test("a user signs in on the web", async () => {
  const redirectUri = "https://example.com/back";
  const { code } = await apple.newUser().signIn({ clientId: "com.example.web", redirectUri });
  assert.equal((await siwatch.client.signIn({ clientId: "com.example.web", code, redirectUri })).outcome, "applied");
});

test("withdrawn consent ends the session", async () => {
  const user = apple.newUser();
  const signIn = await signedIn(user);
  assert.equal(await ends(user, signIn), false);
  assert.deepEqual((await user.withdrawConsent()).map(({ type }) => type), ["consent-revoked"]);
  await siwatch.waitUntilSessionEnds(user.userId, signIn.signedInAt);
  assert.equal((await siwatch.waitForState(user.userId, "revoked")).reason, "consent_revoked");
  assert.equal(await ends(user, await signedIn(user)), false, "a new sign-in has a new session");
});

test("a deleted account ends the session", async () => {
  const user = apple.newUser();
  const signIn = await signedIn(user);
  await user.deleteAccount();
  assert.equal((await siwatch.waitForState(user.userId, "notFound")).reason, "account_deleted");
  assert.equal(await ends(user, signIn), true);
  await assert.rejects(user.signIn(), SimulatorRefused);
});

test("the relay goes off and on", async () => {
  const user = apple.newUser();
  await signedIn(user);
  for (const [enabled, word] of [[false, "disabled"], [true, "enabled"]]) {
    await user.switchRelay(enabled);
    const known = await siwatch.waitForChange(async () => {
      const seen = await siwatch.client.state(user.userId);
      return seen.emailForwarding === word && seen;
    });
    assert.equal(known.state, "authorized", "mail has nothing to do with the session");
  }
  const { email } = await siwatch.client.state(user.userId);
  assert.equal((await webhooks.wait("credential.email", user.userId, { email_forwarding: "disabled" })).data.email, email);
});

test("a user without a relay address cannot switch it", async () => {
  const user = apple.newUser("own");
  assert.equal((await user.signIn()).emailIsPrivate, false);
  await assert.rejects(user.switchRelay(false), { name: "SimulatorRefused", message: /has no relay address/ });
});

test("a webhook arrives and verifies", async () => {
  const user = apple.newUser();
  await withReceiver(webhooks.forwardTo, [], async (taken) => {
    const signIn = await signedIn(user);
    await user.withdrawConsent();
    const event = await webhooks.wait("credential.revoked", user.userId);
    assert(event.data.ends_sessions_before > signIn.signedInAt);
    const events = taken.map(({ headers, body }) => verifyWebhook([siwatch.webhookSecret], headers, body));
    assert(events.some(({ data }) => data.change_id === event.data.change_id), "the backend's own endpoint gets it, byte by byte");
  });
});

const flaws = {
  "a made-up code": ["code_expired", { code: "c0.made.up" }],
  "a used code": ["code_used", {}],
  "a code of another client": ["client_mismatch", { clientId: "com.example.web" }],
  "a code of another nonce": ["bad_id_token", { nonce: "m" }],
};
for (const [name, [reason, change]] of Object.entries(flaws)) {
  test(`${name} is rejected`, async () => {
    const good = { clientId, code: (await apple.newUser().signIn({ nonce: "n" })).code, nonce: "n" };
    if (reason === "code_used") await siwatch.client.signIn(good);
    const rejected = (error) => error instanceof SignInRejected && error.reason === reason;
    await assert.rejects(siwatch.client.signIn({ ...good, ...change }), rejected);
  });
}

test("Apple is away and comes back", async () => {
  const { code } = await apple.newUser().signIn();
  await apple.withFault({ endpoint: "token", status: 503 }, async () => {
    const waiting = await siwatch.client.signIn({ clientId, code, wait: 1, key: code });
    assert.equal(waiting.outcome, "waiting");
  });
  assert.equal((await siwatch.client.signIn({ clientId, code, wait: 60, key: code })).outcome, "applied");
  assert.deepEqual(await apple.control("GET", "faults"), { faults: [] });
});

test("a lost notification is told later", async () => {
  const user = apple.newUser();
  const signIn = await signedIn(user);
  const [lost] = await user.withdrawConsent({ deliver: false });
  assert.equal(await ends(user, signIn), false);
  await apple.deliver(lost);
  await siwatch.waitUntilSessionEnds(user.userId, signIn.signedInAt);
});

test("every notification URL gets it", async () => {
  const user = apple.newUser();
  await signedIn(user);
  await withReceiver(apple.notificationUrls, [500], async (taken) => {
    await user.withdrawConsent();
    assert.equal(taken.length, 2);
    assert(taken[0].body.equals(taken[1].body) && JSON.parse(taken[0].body).payload);
  });
  await siwatch.waitForState(user.userId, "revoked");
});

test("siwatch stops and comes back at the same URL", async () => {
  const user = apple.newUser();
  const signIn = await signedIn(user);
  await siwatch.stop();
  try {
    await assert.rejects(ends(user, signIn), (error) => error instanceof SiwatchError && error.isTemporary);
  } finally {
    await siwatch.start();
  }
  assert.equal(await ends(user, signIn), false);
});

test("a wait ends at its limit", async () => {
  await assert.rejects(waitUntil(() => null, { within: 0.1 }), /after 0.1 seconds/);
});

const page = new URL("../../docs/simulator.md", import.meta.url);
test("the page shows a test that passes", { skip: !existsSync(page) }, () => {
  const folder = mkdtempSync(join(tmpdir(), "siwatch-page-"));
  try {
    const [, text] = /^```js\n(.*?)^```$/ms.exec(readFileSync(page, "utf8"));
    writeFileSync(join(folder, "page.test.mjs"), text);
    mkdirSync(join(folder, "node_modules"));
    symlinkSync(import.meta.dirname ?? new URL(".", import.meta.url).pathname, join(folder, "node_modules/siwatch"));
    const { NODE_TEST_CONTEXT, ...env } = process.env;
    assert.match(execFileSync(process.execPath, ["--test", "page.test.mjs"], { cwd: folder, env, encoding: "utf8" }), /pass 1/);
  } finally {
    rmSync(folder, { recursive: true });
  }
});
