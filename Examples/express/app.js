// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

/*
 * A backend with Express that asks siwatch over HTTP.
 *
 * Sessions are in memory, of one process. Replace `Sessions` by your table or your Redis.
 */

import { randomBytes } from "node:crypto";
import express from "express";
import { SignInRejected, Siwatch, SiwatchError, verifyWebhook, WebhookRejected } from "siwatch";

const { SIWATCH_URL, SIWATCH_TOKEN, SIWATCH_WEBHOOK_SECRET, CLIENT_ID: clientId, PORT = "8000" } = process.env;
const siwatch = new Siwatch(SIWATCH_URL, SIWATCH_TOKEN);
const webhookSecrets = SIWATCH_WEBHOOK_SECRET.split(" ");
const secret = () => randomBytes(32).toString("base64url");

/** Sessions by their secret key, and for each user the time before which sessions have ended. */
class Sessions {
  #sessions = new Map();
  #ends = new Map();

  begin(session) {
    const key = secret();
    this.#sessions.set(key, session);
    return key;
  }

  find(key) {
    const session = this.#sessions.get(key);
    // The time is kept and asked here, because a webhook may come before the session that it ends.
    return session && session.signedInAt >= (this.#ends.get(session.userId) ?? 0) ? session : undefined;
  }

  end(key) {
    this.#sessions.delete(key);
  }

  endAll(userId) {
    for (const [key, session] of this.#sessions) if (session.userId === userId) this.#sessions.delete(key);
  }

  endBefore(userId, time) {
    this.#ends.set(userId, Math.max(time, this.#ends.get(userId) ?? 0));
  }
}

const sessions = new Sessions();
const receipts = new Map(); // Secret links to the ids of deletions.

const app = express();
// Express 4 does not wait for a handler that is async. Express 5 does.
const waits = (handler) => (request, response, next) => handler(request, response, next).catch(next);
// The body byte by byte, as it was signed. Express leaves an object where there is no body.
const raw = [express.raw({ type: () => true, limit: "64kb" }), (request, response, next) => {
  if (!Buffer.isBuffer(request.body)) request.body = Buffer.alloc(0);
  next();
}];

/** As in siwatch's OpenAPI document. */
const isText = (value, length) => typeof value === "string" && value.length <= length && /^[!-~]+$/.test(value);

/** Ends the session of a request if the user has withdrawn consent since the sign-in. */
const signedIn = waits(async (request, response, next) => {
  const key = /(?:^|; )session=([^;]*)/.exec(request.headers.cookie ?? "")?.[1];
  const session = sessions.find(key);
  if (!session) return response.sendStatus(401);
  try {
    if (await siwatch.endsSession(session.userId, session.signedInAt)) {
      sessions.end(key);
      return response.sendStatus(401);
    }
  } catch (error) {
    if (!error.isTemporary) throw error;
    // siwatch is away: that is no reason to sign anybody out.
  }
  request.session = session;
  next();
});

app.post("/sign-in", express.json(), waits(async (request, response) => {
  const { code, nonce } = request.body ?? {};
  if (!isText(code, 8192) || (nonce !== undefined && !isText(nonce, 512))) return response.sendStatus(400);
  try {
    const { user, signedInAt } = await siwatch.signIn({ clientId, code, nonce });
    if (!user) return response.status(503).json({ reason: "Apple does not answer. Sign in again later." });
    const key = sessions.begin({ userId: user.userId, signedInAt });
    response.cookie("session", key, { httpOnly: true, sameSite: "lax" }); // and secure: true behind TLS
    response.json({ user_id: user.userId });
  } catch (error) {
    if (!(error instanceof SignInRejected)) throw error;
    response.status(401).json({ reason: error.reason });
  }
}));

app.get("/me", signedIn, (request, response) => {
  response.json({ user_id: request.session.userId });
});

app.delete("/account", signedIn, waits(async (request, response) => {
  const { userId } = request.session;
  const { id } = await siwatch.delete({ clientId, userId }); // Tell siwatch first, then delete your own rows.
  sessions.endAll(userId);
  const ticket = secret();
  receipts.set(ticket, id);
  response.status(202).json({ receipt: `/receipts/${ticket}` });
}));

app.get("/receipts/:ticket", waits(async (request, response) => {
  const id = receipts.get(request.params.ticket);
  if (id === undefined) return response.sendStatus(404);
  const { outcome, tokens } = await siwatch.deletion(id);
  response.json({ outcome, tokens });
}));

app.post("/siwatch", raw, (request, response) => {
  try {
    const { data } = verifyWebhook(webhookSecrets, request.headers, request.body);
    if (data.ends_sessions_before) sessions.endBefore(data.user_id, data.ends_sessions_before);
    response.sendStatus(204);
  } catch (error) {
    if (!(error instanceof WebhookRejected)) throw error;
    response.sendStatus(400);
  }
});

// Only if no reverse proxy hands Apple's notifications to siwatch. Apple tries again after any answer but 200.
app.post("/apple/notifications", raw, waits(async (request, response) => {
  const headers = { authorization: `Bearer ${SIWATCH_TOKEN}` };
  const signal = AbortSignal.timeout(10_000);
  try {
    const answer = await fetch(`${SIWATCH_URL}/v1/notifications`, { method: "POST", headers, body: request.body, signal });
    response.sendStatus(answer.status);
  } catch {
    response.sendStatus(503);
  }
}));

// A mistake is answered with 500, and the log has it: a backend that swallows it ends no session. Express by itself would answer with
// the status that siwatch gave to this backend, 400 or 401, which blames the browser.
app.use((error, request, response, next) => {
  if (!(error instanceof SiwatchError)) return next(error);
  console.error(error);
  response.sendStatus(error.isTemporary ? 503 : 500);
});

app.listen(Number(PORT), "127.0.0.1");
