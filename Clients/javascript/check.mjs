#!/usr/bin/env node
// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

/*
 * Walks the client against a siwatch at work, one JSON line a step. At the first failure it says why and exits with 1.
 *
 *     SIWATCH_URL=… SIWATCH_TOKEN=… CLIENT_ID=… Clients/javascript/check.mjs GOOD_CODE BAD_CODE [NONCE]
 *
 * Apple takes GOOD_CODE and refuses BAD_CODE. The sign-in of GOOD_CODE is deleted again. APP names the app if there are several.
 */

import { randomUUID } from "node:crypto";
import { setTimeout as sleep } from "node:timers/promises";

import { ChangesGone, SignInRejected, Siwatch, SiwatchError } from "./siwatch.mjs";

const { SIWATCH_URL: url, SIWATCH_TOKEN: token, CLIENT_ID: clientId, APP: app } = process.env;
const [goodCode, badCode, nonce] = process.argv.slice(2);

function fail(message) {
  console.error(message);
  process.exit(1);
}

function step(name, passed, facts) {
  console.log(JSON.stringify({ step: name, ...facts }));
  if (!passed) fail(`${name}: this is not what was expected`);
}

async function follow(siwatch, after, userId, state) {
  for await (const change of siwatch.changes({ after, app, signal: AbortSignal.timeout(60_000) })) {
    if (change.userId !== userId || change.toState !== state) continue;
    step(`change_${state}`, true, { id: change.id, user_id: change.userId, reason: change.reason });
    return change.id;
  }
}

/** What a call throws, if it is of a kind. */
async function thrown(kind, call) {
  try {
    return { answer: await call() };
  } catch (error) {
    if (error instanceof kind) return error;
    throw error;
  }
}

async function main() {
  if (!url || !token || !clientId || !badCode) fail("SIWATCH_URL, SIWATCH_TOKEN, CLIENT_ID or an argument is missing");
  const siwatch = new Siwatch(url, token);

  const doubled = await thrown(TypeError, () => new Siwatch(url, `${token}\n${token}`));
  step("bad_token", doubled instanceof TypeError && !doubled.message.includes(token));
  for (const wrong of ["ftp://a.example", "http://", "http://u:p@a.example", "http://a.example:99999", "http://a.example?x", "unix:", ""]) {
    step("bad_url", (await thrown(TypeError, () => new Siwatch(wrong, token))) instanceof TypeError, { url: wrong });
  }
  const badKey = await thrown(TypeError, () => siwatch.delete({ clientId, userId: "nobody", key: "k\r\nx: y" }));
  step("bad_key", badKey instanceof TypeError && badKey.message.includes("The key"));

  // A variable that is not set would ask about a user whom nobody knows, and end no session.
  for (const ask of [() => siwatch.endsSession(undefined, 1), () => siwatch.state(null), () => siwatch.endsSession("", 1)]) {
    step("no_user", (await thrown(TypeError, ask)) instanceof TypeError);
  }

  let position = await siwatch.position();
  step("position", Boolean(position), { next: position });

  // Not made of the code: a thief of the code would be signed in too.
  const key = randomUUID();
  const signIn = await siwatch.signIn({ clientId, code: goodCode, nonce, wait: 30, key });
  const { signedInAt, user: { userId } = {} } = signIn;
  step("sign_in", Boolean(userId), { id: signIn.id, outcome: signIn.outcome, user_id: userId, signed_in_at: signedInAt });
  const again = await siwatch.signIn({ clientId, code: goodCode, nonce, key });
  step("sign_in_again", again.id === signIn.id, { id: again.id, outcome: again.outcome });

  const rejected = await thrown(SignInRejected, () => siwatch.signIn({ clientId, code: badCode, wait: 30 }));
  step("sign_in_rejected", Boolean(rejected.id) && rejected.id !== signIn.id, { id: rejected.id, reason: rejected.reason });

  const user = await siwatch.state(userId, { app });
  step("state", user?.state === "authorized", { state: user?.state, reason: user?.reason });
  const nobody = await siwatch.state("000000.nobody.0000", { app });
  step("state_of_nobody", nobody === null, { state: nobody });
  let ends = await siwatch.endsSession(userId, signedInAt, { app });
  step("ends_session", ends === false, { ends_session: ends });
  position = await follow(siwatch, position, userId, "authorized");

  let deletion = await siwatch.delete({ clientId, userId });
  step("delete", Boolean(deletion.id), { id: deletion.id, outcome: deletion.outcome });
  await follow(siwatch, position, userId, "revoked");
  const deadline = performance.now() + 30_000;
  while (deletion.outcome !== "done" && performance.now() < deadline) {
    await sleep(200);
    deletion = await siwatch.deletion(deletion.id);
  }
  step("deletion", deletion.outcome === "done" && deletion.tokens.length > 0, { outcome: deletion.outcome, tokens: deletion.tokens });
  ends = await siwatch.endsSession(userId, signedInAt, { app });
  step("ends_session_after", ends === true, { ends_session: ends });

  const gone = await thrown(ChangesGone, () => siwatch.changes({ after: "999999999999999-mh6ev6r4", app }).next());
  step("changes_gone", Boolean(gone.next), { next: gone.next });
  const unauthorized = await thrown(SiwatchError, () => new Siwatch(url, `${token}x`).position());
  step("unauthorized", unauthorized.status === 401, { status: unauthorized.status, type: unauthorized.type });
}

main().catch((error) => fail(`${error.name}: ${error.message}`));
