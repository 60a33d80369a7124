// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

/**
 * A client of siwatch's HTTP interface, without dependencies.
 *
 * Durations are in seconds. Points in time are in milliseconds since 1970 UTC. siwatch.d.ts describes what goes in and comes out;
 * docs/schema.md explains states, outcomes and reasons.
 */

import { createHmac, randomUUID, timingSafeEqual } from "node:crypto";
import { once } from "node:events";
import { request } from "node:http";
import { setTimeout as sleep } from "node:timers/promises";

const PROBLEM = "urn:siwatch:problem:";
/** Milliseconds between two waits, because a siwatch that is about to stop answers at once. */
const BREATH = 200;
const ADDRESS = /^(https?:\/\/[^\s@?#/]+(\/[^\s@?#]*)?|unix:\/(?!\/).+)$/;
const PARSED =
  "The body has to be the bytes as they came, and this one was parsed or never read. Express: put express.raw({ type: " +
  '"application/json" }) before this route, and express.json() after it. Fetch, Next, Hono: await request.text(). Fastify: a ' +
  'content type parser with { parseAs: "buffer" }.';
/** What may stand in a header. Otherwise an error of fetch would quote it. */
const WORD = /^[!-~]+$/;

/**
 * siwatch refused a request, or no whole answer came: then `status` is undefined.
 *
 * `type` and `detail` are those of the problem document. If the error `isTemporary`, the same call may succeed later.
 */
export class SiwatchError extends Error {
  constructor(status, problem, { retryAfter = 0, cause } = {}) {
    super([status, problem.title, problem.detail, problem.reason].filter(Boolean).join(": "), { cause });
    this.name = new.target.name;
    this.status = status;
    this.type = problem.type;
    this.detail = problem.detail;
    this.retryAfter = retryAfter;
    this.isTemporary = [undefined, 408, 429, 502, 503, 504].includes(status);
  }
}

/** Apple or siwatch rejected the sign-in `id`. `reason` says why: `code_expired`, for instance. */
export class SignInRejected extends SiwatchError {
  constructor(problem) {
    super(422, problem);
    this.reason = problem.reason;
    this.id = problem.id;
  }
}

/** Changes are missing. Ask `endsSession` for each session that you keep, and follow again after `next`. */
export class ChangesGone extends SiwatchError {
  constructor(problem) {
    super(410, problem);
    this.next = problem.next;
  }
}

/** The request is no webhook of siwatch, or it is too old. Answer 400. */
export class WebhookRejected extends Error {
  name = "WebhookRejected";
}

/**
 * What a backend tells siwatch and asks of it.
 *
 * Each method throws `SiwatchError`. If it is temporary, `signIn` and `delete` try again for ten seconds first, the others for `patience`
 * in all. From then on calls of that kind throw it at once. Every `away` seconds one of them asks whether siwatch is back. All tries of a
 * call have the same key, so siwatch keeps the request once. A `signal` ends a call with its reason.
 */
export class Siwatch {
  #url;
  #token;
  #timeout;
  #patience;
  #away;
  /** Until when calls are answered at once, by their patience: a full disk keeps sign-ins out and answers questions. */
  #quietUntil = new Map();

  /**
   * `url` is `http://host:port`, `https://host:port` or `unix:/path/to/socket`. `timeout` is how long siwatch may take for an answer,
   * besides the time that it is asked to wait.
   */
  constructor(url, token, { timeout = 5, patience = 2, away = 5 } = {}) {
    if (!ADDRESS.test(url)) throw new TypeError("The URL has to be http://host:port, https://host:port or unix:/path/to/socket.");
    this.#url = new URL(url);
    this.#token = token.trim();
    if (!WORD.test(this.#token)) throw new TypeError("The token is none that siwatch secret new token made.");
    this.#timeout = timeout;
    this.#patience = patience;
    this.#away = away;
  }

  /**
   * Tells a sign-in, and waits up to `wait` seconds for its outcome. It is `waiting` if that was too short.
   *
   * With a `code`, siwatch exchanges it at Apple. With a `refreshToken`, or with neither, you have verified the sign-in yourself. A later
   * call with the same `key` is about the same sign-in. Throws `SignInRejected`.
   */
  async signIn({ wait = 10, key, signal, ...members }) {
    const deadline = performance.now() + wait * 1000;
    const part = () => Math.max(0, Math.min(10, Math.ceil((deadline - performance.now()) / 1000)));
    const first = part();
    let signIn = await this.#ask("POST", "/v1/sign-ins", { body: { ...members, wait: first }, key, wait: first, patience: 10, signal });
    for (let more = part(); signIn.outcome === "waiting" && more > 0; more = part()) {
      await pause(BREATH, signal);
      signIn = await this.#ask("GET", `/v1/sign-ins/${signIn.id}`, { query: { wait: more }, wait: more, patience: 10, signal });
    }
    if (signIn.outcome === "rejected" || signIn.outcome === "in_future") {
      throw new SignInRejected({ type: `${PROBLEM}sign-in-rejected`, reason: signIn.outcome, ...signIn });
    }
    return signIn;
  }

  /** Tells that a user has deleted the account. siwatch then revokes the user's tokens at Apple. `requestedAt`: if not now. */
  async delete({ clientId, userId, requestedAt, key, signal }) {
    return await this.#ask("POST", "/v1/deletions", { body: { clientId, userId, requestedAt }, key, patience: 10, signal });
  }

  /** How far a deletion is. */
  async deletion(id, { signal } = {}) {
    return await this.#ask("GET", `/v1/deletions/${id}`, { signal });
  }

  /** The state of a user, or null if siwatch does not know the user. `app` is needed if there are several. */
  async state(userId, { app, signal } = {}) {
    try {
      return await this.#ask("GET", pathOf(userId), { query: { app }, signal });
    } catch (error) {
      if (error.type === `${PROBLEM}not-found`) return null;
      throw error;
    }
  }

  /** Whether a session is to end. Ask at each request, and after the commit of a new session. */
  async endsSession(userId, signedInAt, { app, signal } = {}) {
    return (await this.#ask("GET", `${pathOf(userId)}/ends-session`, { query: { signedInAt, app }, signal })).endsSession;
  }

  /** The `id` after which to follow at first. Keep it, then ask `endsSession` for each session that you keep. */
  async position({ signal } = {}) {
    return (await this.#ask("GET", "/v1/changes", { signal })).next;
  }

  /**
   * Yields for ever the changes after the one with the id `after`, or from now on. Keep the `id` of each that you have handled.
   *
   * It tries again for as long as siwatch does not answer. Each request waits up to `wait` seconds, 25 at most. Throws `ChangesGone`.
   */
  async *changes({ after, app, wait = 25, signal } = {}) {
    after ??= (await this.#ask("GET", "/v1/changes", { patience: Infinity, signal })).next;
    while (true) {
      const page = await this.#ask("GET", "/v1/changes", { query: { after, app, wait }, wait, patience: Infinity, signal });
      yield* page.changes;
      after = page.next;
      if (page.changes.length === 0) await pause(BREATH, signal);
    }
  }

  async #ask(method, path, { query = {}, body, key, wait = 0, patience = this.#patience, signal }) {
    const parameters = new URLSearchParams(Object.entries(snakeCased(query)).filter(([, value]) => value !== undefined));
    const target = `${path}?${parameters}`.replace(/\?$/, "");
    key ??= randomUUID();
    if (!WORD.test(key)) throw new TypeError("The key is no word of ASCII.");
    const headers = { authorization: `Bearer ${this.#token}` };
    if (body) Object.assign(headers, { "content-type": "application/json", "idempotency-key": key });
    const message = { method, headers, body: body && JSON.stringify(snakeCased(body)) };
    const stayQuiet = () => this.#quietUntil.set(patience, performance.now() + this.#away * 1000);
    const quiet = (this.#quietUntil.get(patience) - performance.now()) / 1000;
    if (quiet > 0) {
      const problem = { title: "siwatch is away", detail: `asked again in ${quiet.toFixed(1)} s` };
      throw new SiwatchError(undefined, problem, { retryAfter: Math.ceil(quiet) });
    }
    // This call finds out whether siwatch is back. The others do not wait for it.
    if (quiet <= 0) stayQuiet();
    const start = performance.now();
    let deadline = start + patience * 1000;
    for (let failures = 0; ; failures++) {
      try {
        const limit = Math.min(this.#timeout, (deadline - performance.now()) / 1000);
        const answer = await this.#try(target, message, wait + Math.max(0.01, limit), signal);
        this.#quietUntil.delete(patience);
        return answer;
      } catch (error) {
        if (error instanceof SiwatchError && !error.isTemporary) this.#quietUntil.delete(patience);
        if (!error?.isTemporary) throw error;
        // An answer that was lost during a long wait is asked for again. One that did not come in all that time is not.
        if (failures === 0) deadline = Math.max(deadline, Math.min(performance.now(), start + this.#timeout * 1000) + wait * 1000);
        // The first pause is none, because siwatch may just have closed an idle connection.
        const delay = 1000 * Math.max(error.retryAfter, ((2 ** Math.min(failures, 7) - 1) / 4) * (0.5 + Math.random() / 2));
        const left = deadline - performance.now();
        if (left <= 0 || error.retryAfter * 1000 > left) {
          stayQuiet();
          throw error;
        }
        await pause(Math.min(delay, left), signal); // The last try is at the end.
      }
    }
  }

  async #try(target, message, timeout, signal) {
    signal?.throwIfAborted();
    const controller = new AbortController();
    const abort = () => controller.abort();
    const timer = setTimeout(abort, timeout * 1000);
    signal?.addEventListener("abort", abort);
    let answer, members;
    try {
      const send = this.#url.protocol === "unix:" ? sendToSocket : sendToHost;
      answer = await send(this.#url, target, { ...message, signal: controller.signal });
      members = answer.isJSON ? camelCased(JSON.parse(answer.text)) : { title: "This is not siwatch's HTTP door" };
    } catch (cause) {
      signal?.throwIfAborted();
      const detail = controller.signal.aborted ? "the time is over" : String(cause.cause ?? cause);
      throw new SiwatchError(undefined, { title: "No whole answer came", detail }, { cause });
    } finally {
      clearTimeout(timer);
      signal?.removeEventListener("abort", abort);
    }
    if (answer.status === 200 || answer.status === 202) return members;
    if (members.type === `${PROBLEM}sign-in-rejected`) throw new SignInRejected(members);
    if (members.type === `${PROBLEM}changes-gone`) throw new ChangesGone(members);
    throw new SiwatchError(answer.status, members, { retryAfter: Number(answer.retryAfter) || 0 });
  }
}

/**
 * Verifies a webhook by Standard Webhooks 1.0, and returns its body, parsed.
 *
 * Give both `secrets` while one changes. `headers` are a `Headers` or Node's object. `body` is as it came, byte by byte. The webhook's
 * time may differ from `now` by `tolerance`, both in seconds. The same `webhook-id` comes again until you answer 2xx. Throws
 * `WebhookRejected`, or `TypeError` for a bad secret or a body that was parsed before.
 */
export function verifyWebhook(secrets, headers, body, { tolerance = 300, now = Date.now() / 1000 } = {}) {
  if (body instanceof ArrayBuffer) body = new Uint8Array(body);
  if (typeof body !== "string" && !ArrayBuffer.isView(body)) throw new TypeError(PARSED);
  const texts = secrets.map((secret) => secret.replace(/^whsec_/, ""));
  if (texts.length === 0 || !texts.every((text) => /^[A-Za-z0-9+/]{2,}={0,2}$/.test(text))) {
    throw new TypeError("A secret is missing, or none that `siwatch secret new webhook` made: whsec_ and base64.");
  }
  const entries = Symbol.iterator in headers ? [...headers] : Object.entries(headers);
  const lowered = new Map(entries.map(([name, value]) => [name.toLowerCase(), value]));
  const [id, timestamp, signatures] = ["id", "timestamp", "signature"].map((name) => String(lowered.get(`webhook-${name}`) ?? ""));
  if (!id || !/^[0-9]+$/.test(timestamp)) throw new WebhookRejected("webhook-id is missing, or webhook-timestamp is no whole number.");
  if (!(Math.abs(now - Number(timestamp)) <= tolerance)) throw new WebhookRejected("The webhook is too old, or from the future.");
  const given = signatures.split(" ").map((signature) => Buffer.from(signature));
  const expected = texts.map((text) => {
    const code = createHmac("sha256", Buffer.from(text, "base64")).update(`${id}.${timestamp}.`).update(body);
    return Buffer.from(`v1,${code.digest("base64")}`);
  });
  if (!expected.some((one) => given.some((other) => one.length === other.length && timingSafeEqual(one, other)))) {
    throw new WebhookRejected("No signature is by one of the secrets.");
  }
  return JSON.parse(Buffer.from(body).toString());
}

/** A missing user would be asked about as `undefined`, whom siwatch does not know. */
function pathOf(userId) {
  if (typeof userId !== "string" || userId === "") throw new TypeError("The user's id has to be Apple's sub.");
  return `/v1/users/${encodeURIComponent(userId)}`;
}

async function sendToHost(url, target, message) {
  const response = await fetch(url.href.replace(/\/$/, "") + target, { ...message, redirect: "manual" });
  const { status, headers } = response;
  const [type, retryAfter] = [headers.get("content-type"), headers.get("retry-after")];
  return { status, retryAfter, isJSON: isJSON(type), text: await response.text() };
}

async function sendToSocket(url, target, { body, ...message }) {
  const outgoing = request({ socketPath: decodeURIComponent(url.pathname), path: target, ...message }).end(body);
  const [incoming] = await once(outgoing, "response");
  // From here on, errors are those of the answer.
  outgoing.on("error", () => {});
  let text = "";
  for await (const chunk of incoming.setEncoding("utf8")) text += chunk;
  const { statusCode: status, headers } = incoming;
  return { status, retryAfter: headers["retry-after"], isJSON: isJSON(headers["content-type"]), text };
}

const isJSON = (type) => /^application\/(problem\+)?json\b/i.test(type ?? "");

async function pause(milliseconds, signal) {
  try {
    await sleep(milliseconds, undefined, { signal });
  } catch {
    signal.throwIfAborted();
  }
}

const snakeCased = (value) => renamed(value, (name) => name.replace(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`));
const camelCased = (value) => renamed(value, (name) => name.replace(/_([a-z])/g, (_, letter) => letter.toUpperCase()));

function renamed(value, rename) {
  if (Array.isArray(value)) return value.map((element) => renamed(element, rename));
  if (value === null || typeof value !== "object") return value;
  return Object.fromEntries(Object.entries(value).map(([name, member]) => [rename(name), renamed(member, rename)]));
}
