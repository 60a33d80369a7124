// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

/* A simulated Apple for tests of a backend: siwatch-simulator as a process, and its people. siwatch-testing.mjs has the rest. */

import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { once } from "node:events";
import { resolve } from "node:path";
import { createInterface } from "node:readline";
import { setTimeout as sleep } from "node:timers/promises";

/** The first true answer of `look`, which it asks again and again. Throws after `within` seconds. */
export async function waitUntil(look, { within = 30, pause = 0.02 } = {}) {
  const end = performance.now() + within * 1000;
  while (true) {
    const answer = await look();
    if (answer) return answer;
    assert(performance.now() < end, `still ${JSON.stringify(answer)} after ${within} seconds`);
    await sleep(pause * 1000);
  }
}

/** The simulator answers a control route with 400, 404 or 409. The message says why. */
export class SimulatorRefused extends Error {
  name = "SimulatorRefused";
}

/**
 * A person with an Apple Account.
 *
 * The methods that end something return Apple's notifications, after the receivers have answered 200. `emission` are members of the
 * control route: `{ deliver: false }` for a notification that gets lost, `{ event_time }` for one that comes late.
 */
export class AppleUser {
  #apple;
  #address;
  #userId;

  constructor(apple, address) {
    this.#apple = apple;
    this.#address = address;
  }

  /** Apple's `sub`. The first sign-in makes it. */
  get userId() {
    assert(this.#userId, "the user has not signed in yet");
    return this.#userId;
  }

  /** Signs in at a client, the first configured one by default. */
  async signIn({ clientId, nonce, redirectUri } = {}) {
    const body = { credential: "authorization_code", client_id: clientId, nonce, redirect_uri: redirectUri };
    const answer = this.#userId
      ? await this.#apple.control("POST", "sign-ins", { user_ids: [this.#userId], ...body })
      : await this.#apple.control("POST", "users", { address: this.#address, ...body });
    const signIn = answer.sign_ins[0];
    this.#userId = signIn.user_id;
    return {
      code: signIn.authorization_code,
      userId: signIn.user_id,
      clientId: signIn.client_id,
      grantedAt: signIn.granted_at,
      nonce: signIn.nonce,
      redirectUri: signIn.redirect_uri,
      email: signIn.email,
      emailIsPrivate: signIn.email_is_private,
    };
  }

  /** Stops using Sign in with Apple for the apps of the latest sign-in. */
  async withdrawConsent(emission) {
    return await this.#apple.cause("consent-revocations", this.userId, emission);
  }

  /** Deletes the Apple Account. The user cannot sign in again. */
  async deleteAccount(emission) {
    return await this.#apple.cause("account-deletions", this.userId, emission);
  }

  /** Lets Apple's mail relay forward mail, or stops it. The user needs the address `relay`. */
  async switchRelay(enabled, emission) {
    return await this.#apple.cause("mail-forwarding", this.userId, { enabled, ...emission });
  }

  /** What Apple knows about the user. */
  async truth() {
    return await this.#apple.control("GET", `users/${encodeURIComponent(this.userId)}`);
  }
}

/** siwatch-simulator. It posts no notification itself: this class does, to each of `notificationUrls`, until the answer is 200. */
export class SimulatedApple {
  notificationUrls = [];
  #process;

  static async start(folder, clientIds = []) {
    const apple = new SimulatedApple();
    const options = clientIds.flatMap((clientId) => ["--client-id", clientId]);
    apple.#process = new Program(programOf("SIWATCH_SIMULATOR", "siwatch-simulator"), ["--print-config", ...options], folder);
    await apple.#process.line("keys_endpoint = ");
    apple.url = (await apple.#process.line("listening on ")).split("listening on ")[1].trim();
    apple.config = `${apple.#process.lines.join("\n")}\n`;
    return apple;
  }

  newUser(address = "relay") {
    return new AppleUser(this, address);
  }

  /** Calls a control route, such as `GET counters`. */
  async control(method, path, body) {
    const response = await fetch(`${this.url}/simulator/${path}`, { method, body: body && JSON.stringify(body) });
    const answer = await response.json().catch(() => ({}));
    if (response.status !== 200) throw new SimulatorRefused(answer.error ?? `${method} ${path}: ${response.status}`);
    return answer;
  }

  /** Lets an event happen to a user, and posts Apple's notifications of it. */
  async cause(event, userId, { deliver = true, ...members } = {}) {
    const { notifications } = await this.control("POST", event, { user_ids: [userId], ...members });
    if (deliver) for (const notification of notifications) await this.deliver(notification);
    return notifications;
  }

  /** Posts a notification to each URL, again if the answer is not 200, three times at most. */
  async deliver(notification) {
    for (const url of this.notificationUrls) {
      const statuses = [];
      while (statuses.at(-1) !== 200 && statuses.length < 3) {
        await sleep(200 * statuses.length);
        statuses.push(await post(url, notification.body, { "content-type": "application/json" }));
      }
      assert.equal(statuses.at(-1), 200, `${url} answers Apple's notification with ${statuses}`);
    }
  }

  /** Apple is in trouble while `body` runs: `{ status: 503 }`, `{ connection: "reset" }`, … docs/simulator.md lists all. */
  async withFault(fault, body) {
    const { id } = await this.control("POST", "faults", fault);
    try {
      return await body();
    } finally {
      // A fault with a `count` may be over already.
      await this.control("DELETE", `faults/${id}`).catch((error) => assert(error instanceof SimulatorRefused, error));
    }
  }

  async stop() {
    await this.#process.stop();
  }
}

/** Lets callers wait until something is there. */
export class Bell {
  #waiting = new Set();

  ring() {
    for (const wake of this.#waiting) wake();
    this.#waiting.clear();
  }

  /** The first true answer of `look`, which it asks at each ring, or the last one after `within` seconds. */
  async until(look, within) {
    let timer;
    let isOver = false;
    const end = new Promise((wake) => (timer = setTimeout(wake, within * 1000))).then(() => (isOver = true));
    try {
      while (true) {
        const answer = look();
        if (answer || isOver) return answer;
        await Promise.race([end, new Promise((wake) => this.#waiting.add(wake))]);
      }
    } finally {
      clearTimeout(timer);
    }
  }
}

/** A program and the lines that it prints. */
export class Program {
  lines = [];
  #name;
  #child;
  #isSilent = false;
  #bell = new Bell();

  constructor(name, parts, cwd) {
    this.#name = name;
    // In a session of its own, so that Ctrl-C reaches the tests alone.
    this.#child = spawn(name, parts, { cwd, detached: true, stdio: ["ignore", "pipe", "pipe"] });
    this.#child.once("error", (error) => this.lines.push(String(error)));
    this.#child.once("close", () => {
      this.#isSilent = true;
      this.#bell.ring();
    });
    for (const output of [this.#child.stdout, this.#child.stderr]) {
      createInterface(output).on("line", (line) => {
        this.lines.push(line);
        this.#bell.ring();
      });
    }
    process.once("exit", this.#kill);
    // A program that runs must not keep the tests from ending: on Node 18, `after` at the top is called once nothing else is to be done.
    for (const one of [this.#child, this.#child.stdout, this.#child.stderr]) one.unref();
  }

  /** The first line with a text. Stops the program if it prints none. */
  async line(containing, { within = 60 } = {}) {
    const find = () => this.lines.find((line) => line.includes(containing));
    await this.#bell.until(() => this.#isSilent || find(), within);
    if (!find()) await this.stop();
    return find() ?? assert.fail(`${this.#name} does not print "${containing}" but:\n${this.lines.join("\n")}`);
  }

  async stop() {
    process.removeListener("exit", this.#kill);
    if (this.#isSilent) return;
    const timer = setTimeout(this.#kill, 10_000);
    this.#child.kill("SIGTERM");
    await once(this.#child, "close");
    clearTimeout(timer);
  }

  #kill = () => this.#child.kill("SIGKILL");
}

/** The program that a variable of the environment names, or the name of one on the PATH. */
export const programOf = (variable, name) => (process.env[variable] ? resolve(process.env[variable]) : name);

/** The status, or 0 if nobody answers. */
export async function post(url, body, headers) {
  try {
    const response = await fetch(url, { method: "POST", body, headers, redirect: "manual" });
    await response.arrayBuffer();
    return response.status;
  } catch {
    return 0;
  }
}
