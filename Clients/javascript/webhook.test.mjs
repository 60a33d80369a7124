// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import assert from "node:assert/strict";
import test from "node:test";

import { WebhookRejected, verifyWebhook } from "./siwatch.mjs";

// The vector of the Standard Webhooks libraries.
const secret = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";
const otherSecret = `whsec_${Buffer.from("another secret of 24 bytes").toString("base64")}`;
const body = '{"test": 2432232314}';
const time = 1614265330;
const signature = "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=";
const headers = { "webhook-id": "msg_p5jXN8AQM9LWM0D4loKWxJek", "webhook-timestamp": String(time), "webhook-signature": signature };

function verify(change = {}) {
  return verifyWebhook(change.secrets ?? [secret], { ...headers, ...change.headers }, change.body ?? body, { now: change.now ?? time });
}

test("the vector is accepted", () => {
  assert.deepEqual(verify(), { test: 2432232314 });
  assert.deepEqual(verify({ body: Buffer.from(body) }), { test: 2432232314 });
  assert.deepEqual(verifyWebhook([secret], new Headers(headers), body, { now: time }), { test: 2432232314 });
});

test("names of headers are of any case", () => {
  const upper = Object.fromEntries(Object.entries(headers).map(([name, value]) => [name.toUpperCase(), value]));
  verifyWebhook([secret], upper, body, { now: time });
});

test("a secret needs no prefix", () => verify({ secrets: [secret.slice("whsec_".length)] }));

test("either secret counts while one changes", () => {
  verify({ secrets: [otherSecret, secret] });
  verify({ secrets: [secret, otherSecret] });
});

test("one good signature among several is enough", () => {
  verify({ headers: { "webhook-signature": `v1,AAAA v1a,${signature.slice(3)} ${signature} nonsense` } });
});

test("the time may differ by the tolerance both ways", () => {
  verify({ now: time + 300 });
  verify({ now: time - 300 });
});

const wrong = {
  "another secret": { secrets: [otherSecret] },
  "another body": { body: `${body} ` },
  "another id": { headers: { "webhook-id": "msg_2" } },
  "no id": { headers: { "webhook-id": undefined } },
  "another time": { headers: { "webhook-timestamp": String(time + 1) } },
  "no time": { headers: { "webhook-timestamp": undefined } },
  "a time that is no whole number": { headers: { "webhook-timestamp": `${time}.0` } },
  "a time of too many digits": { headers: { "webhook-timestamp": "9".repeat(5000) } },
  "an old webhook": { now: time + 301 },
  "a webhook from the future": { now: time - 301 },
  "a time of now that is none": { now: NaN },
  "no signature": { headers: { "webhook-signature": "" } },
  "a signature of another version": { headers: { "webhook-signature": `v2${signature.slice(2)}` } },
  "a signature without a version": { headers: { "webhook-signature": signature.slice(3) } },
  "half a signature": { headers: { "webhook-signature": signature.slice(0, -10) } },
  "a signature that is not ASCII": { headers: { "webhook-signature": "v1,é\udc80" } },
};
for (const [name, change] of Object.entries(wrong)) {
  test(`${name} is rejected`, () => assert.throws(() => verify(change), WebhookRejected));
}

test("a parsed body is an error that says how to get the raw one", () => {
  assert.deepEqual(verify({ body: new TextEncoder().encode(body).buffer }), { test: 2432232314 });
  // verify() would take the good body in the place of undefined.
  for (const parsed of [JSON.parse(body), undefined, null, 1]) {
    assert.throws(() => verifyWebhook([secret], headers, parsed, { now: time }), { name: "TypeError", message: /express\.raw\(/ });
  }
});

test("a bad secret is an error", () => {
  for (const bad of [["whsec_"], [""], ["whsec_no base64!"], []]) assert.throws(() => verify({ secrets: bad }), TypeError);
});
