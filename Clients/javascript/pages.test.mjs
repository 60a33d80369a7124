// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

/* What a reader copies from the guides lets a mistake through: a time in seconds and a wrong token are errors that somebody sees. */

import assert from "node:assert/strict";
import { existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import test, { after } from "node:test";
import { fileURLToPath } from "node:url";

import { startTestbed } from "./siwatch-testing.mjs";

const guides = new URL("../../docs/guides/", import.meta.url);
const skip = !existsSync(guides);
const bed = await startTestbed();
const folder = mkdtempSync(join(tmpdir(), "siwatch-pages-"));
after(async () => {
  rmSync(folder, { recursive: true, force: true });
  await bed.stop();
});

/** What the guides import and this host does not have. */
const standIns = {
  "next-auth": "export default () => ({});",
  "next-auth/providers/apple": "export default {};",
  "better-auth": "export const betterAuth = (options) => options;",
  jose: "export const decodeJwt = JSON.parse;",
  pg: "export class Pool {}",
};
for (const [name, text] of Object.entries(standIns)) {
  const place = join(folder, "node_modules", name);
  mkdirSync(place, { recursive: true });
  writeFileSync(join(place, "package.json"), '{"type": "module", "exports": {".": "./index.js", "./providers/apple": "./providers/apple/index.js"}}');
  writeFileSync(join(place, "index.js"), text);
}
symlinkSync(fileURLToPath(new URL(".", import.meta.url)), join(folder, "node_modules/siwatch"));

let number = 0;
/** The module on a page, at a siwatch with this token. */
async function guide(name, { url = bed.siwatch.url, token = bed.siwatch.token, more = "" } = {}) {
  const block = /^```js\n(.*?)^```$/ms.exec(readFileSync(new URL(name, guides), "utf8"))[1];
  const file = join(folder, `${number++}.mjs`);
  writeFileSync(file, block + more);
  Object.assign(process.env, { SIWATCH_URL: url, SIWATCH_TOKEN: token });
  globalThis.Deno = { env: { get: (variable) => process.env[variable] } };
  return await import(file);
}

const wrong = { token: [...bed.siwatch.token].reverse().join("") };
const clientId = "com.example.app";

test("Auth.js: a session goes on while siwatch is away, and for no other reason", { skip }, async () => {
  const { callbacks } = await guide("authjs.md");
  const user = bed.apple.newUser();
  const { signedInAt } = await bed.siwatch.client.signIn({ clientId, code: (await user.signIn()).code });
  const token = { apple: { sub: user.userId, at: signedInAt } };
  assert.equal(await callbacks.jwt({ token }), token);
  await assert.rejects(callbacks.jwt({ token: { apple: { sub: user.userId, at: Math.floor(signedInAt / 1000) } } }), { status: 400 });
  await assert.rejects((await guide("authjs.md", wrong)).callbacks.jwt({ token }), { status: 401 });
  const away = (await guide("authjs.md", { url: "http://127.0.0.1:1" })).callbacks;
  assert.equal(await away.jwt({ token }), token);
  const account = { provider: "apple" };
  const profile = { aud: clientId, sub: user.userId, iat: Math.floor(signedInAt / 1000) };
  await assert.rejects((await guide("authjs.md", wrong)).callbacks.signIn({ account, profile }), { status: 401 });
  await user.withdrawConsent();
  await bed.siwatch.waitUntilSessionEnds(user.userId, signedInAt);
  assert.equal(await callbacks.jwt({ token }), null);
});

test("better-auth: a sign-in that siwatch does not take is an error", { skip }, async () => {
  const account = { providerId: "apple", accountId: "000341.5c8d.0917" };
  const at = Math.floor(Date.now() / 1000);
  await (await guide("better-auth.md")).tell({ ...account, idToken: JSON.stringify({ aud: clientId, iat: at }) });
  const seconds = { ...account, idToken: JSON.stringify({ aud: clientId, iat: Math.floor(at / 1000) }) };
  await assert.rejects((await guide("better-auth.md")).tell(seconds), { status: 400 });
  const { tell } = await guide("better-auth.md", wrong);
  await assert.rejects(tell({ ...account, idToken: JSON.stringify({ aud: clientId, iat: at }) }), { status: 401 });
});

test("Supabase: a sign-in that siwatch does not take is an error", { skip }, async () => {
  const more = "export { tell };";
  const user = bed.apple.newUser();
  const { code } = await user.signIn();
  const { tell } = await guide("supabase.md", { more });
  assert.equal(await tell(user.userId, { code }), true);
  assert.equal(await tell(user.userId, { code: "c0.made.up" }), false);
  await assert.rejects((await guide("supabase.md", { ...wrong, more })).tell(user.userId, { code }), /401/);
});
