// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

/*
 * A simulated Apple and a siwatch with the HTTP door, for tests of a backend: Node 18.8 or later, without dependencies.
 *
 * The programs are those that the environment variables SIWATCH and SIWATCH_SIMULATOR name, or `siwatch` and `siwatch-simulator` on the PATH.
 * Everything listens on loopback and keeps its files in a temporary folder. docs/simulator.md shows a test.
 */

import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { createServer } from "node:http";
import { tmpdir } from "node:os";
import { join } from "node:path";

import { Bell, Program, SimulatedApple, post, programOf } from "./simulated-apple.mjs";
import { Siwatch, WebhookRejected, verifyWebhook } from "./siwatch.mjs";

export { AppleUser, SimulatedApple, SimulatorRefused, waitUntil } from "./simulated-apple.mjs";

/**
 * Receives siwatch's webhooks, verifies them, and hands each to the URLs in `forwardTo`, byte by byte.
 *
 * If a backend there does not answer 2xx, siwatch gets its answer and tries again.
 */
export class Webhooks {
  secret = "";
  forwardTo = [];
  #events = new Map();
  #bell = new Bell();
  #server = createServer((request, response) => this.#take(request, response));

  static async start() {
    const webhooks = new Webhooks();
    webhooks.#server.listen(0, "127.0.0.1");
    await once(webhooks.#server, "listening");
    // As with programs, a receiver that waits must not keep the tests from ending.
    webhooks.#server.unref().on("connection", (socket) => socket.unref());
    webhooks.url = `http://127.0.0.1:${webhooks.#server.address().port}/siwatch`;
    return webhooks;
  }

  /** The bodies of all verified webhooks, each once. */
  get events() {
    return [...this.#events.values()];
  }

  /** The first webhook of a type, such as `credential.revoked`, about a user, with these members of `data`. */
  async wait(type, userId, data = {}, { within = 30 } = {}) {
    const members = Object.entries({ ...data, user_id: userId });
    const isIt = (event) => event.type === type && members.every(([name, value]) => event.data[name] === value);
    const event = await this.#bell.until(() => this.events.find(isIt), within);
    assert(event, `no webhook ${type} with ${members} within ${within} seconds, but ${JSON.stringify(this.events)}`);
    return event;
  }

  async #take(request, response) {
    const chunks = [];
    for await (const chunk of request) chunks.push(chunk);
    const body = Buffer.concat(chunks);
    response.statusCode = 200;
    try {
      const event = verifyWebhook([this.secret], request.headers, body);
      // Without the headers of the connection, which are about the way to here.
      const handed = Object.entries(request.headers).filter(([name]) => /^(webhook-|content-type$)/.test(name));
      for (const url of this.forwardTo) {
        const status = await post(url, body, Object.fromEntries(handed));
        if (status < 200 || status > 299) response.statusCode = status || 503;
      }
      this.#events.set(request.headers["webhook-id"], event);
      this.#bell.ring();
    } catch (error) {
      if (!(error instanceof WebhookRejected)) throw error;
      response.statusCode = 400;
    }
    response.end();
  }

  async stop() {
    this.#server.close();
    this.#server.closeAllConnections?.();
  }
}

/** A siwatch on an SQLite file. `client` is a client with all rights; `url`, `token` and `webhookSecret` are for the backend. */
export class Daemon {
  app = "example";
  #folder;
  #program = programOf("SIWATCH", "siwatch");
  #process;

  static async start(folder, apple, webhooks, config = "") {
    const daemon = new Daemon();
    daemon.#folder = folder;
    daemon.configFile = join(folder, "siwatch.toml");
    const configure = (port) => writeFileSync(daemon.configFile, apple.config + door(port, webhooks.url) + config);
    configure(0);
    daemon.command("secret", "new", "token", join(folder, "backend.token"));
    daemon.command("secret", "new", "webhook", join(folder, "backend.whsec"));
    daemon.command("migrate", "--config", daemon.configFile);
    daemon.token = readFileSync(join(folder, "backend.token"), "utf8").trim();
    daemon.webhookSecret = webhooks.secret = readFileSync(join(folder, "backend.whsec"), "utf8").trim();
    await daemon.start();
    daemon.url = `http://${/address=(\S+)/.exec(await daemon.#process.line("event=door_open"))[1]}`;
    daemon.notificationUrl = `${daemon.url}/apple/notifications`;
    apple.notificationUrls.push(daemon.notificationUrl);
    daemon.client = new Siwatch(daemon.url, daemon.token, { away: 0 });
    // From now on it starts at the same port.
    configure(new URL(daemon.url).port);
    return daemon;
  }

  /** Runs a command of siwatch, and returns its output. */
  command(...parts) {
    return execFileSync(this.#program, parts, { cwd: this.#folder, encoding: "utf8", stdio: ["ignore", "pipe", "pipe"] });
  }

  /** Starts siwatch again after `stop`, at the same URL. */
  async start() {
    this.#process = new Program(this.#program, ["run", "--config", this.configFile], this.#folder);
    await this.#process.line("event=ready");
  }

  async stop() {
    await this.#process.stop();
  }

  get log() {
    return this.#process.lines.join("\n");
  }

  /** The first true answer of `look`, which it asks after each change that siwatch records. */
  async waitForChange(look, { within = 30 } = {}) {
    const end = performance.now() + within * 1000;
    let after = await this.client.position();
    while (true) {
      const answer = await look();
      if (answer) return answer;
      assert(performance.now() < end, `still ${JSON.stringify(answer)} after ${within} seconds; siwatch's log:\n${this.log}`);
      const wait = Math.max(1, Math.min(25, Math.round((end - performance.now()) / 1000)));
      const path = `${this.url}/v1/changes?after=${after}&wait=${wait}`;
      const response = await fetch(path, { headers: { authorization: `Bearer ${this.token}` } });
      assert.equal(response.status, 200, path);
      after = (await response.json()).next;
    }
  }

  /** The user, once the state is `authorized`, `revoked` or `notFound`. */
  async waitForState(userId, state, options) {
    return await this.waitForChange(async () => {
      const user = await this.client.state(userId, { app: this.app });
      return user?.state === state && user;
    }, options);
  }

  async waitUntilSessionEnds(userId, signedInAt, options) {
    await this.waitForChange(() => this.client.endsSession(userId, signedInAt, { app: this.app }), options);
  }
}

/**
 * Starts all three in a temporary folder, which `stop` removes: `const bed = await startTestbed(); after(() => bed.stop());`
 *
 * `clientIds` are the clients of the app, the primary App ID first. `config` are more tables for siwatch.toml.
 */
export async function startTestbed({ clientIds = ["com.example.app", "com.example.web"], config } = {}) {
  const folder = mkdtempSync(join(tmpdir(), "siwatch-"));
  const started = [];
  const stop = async () => {
    for (const one of started.splice(0).reverse()) await one.stop();
    rmSync(folder, { recursive: true, force: true });
  };
  const keep = (one) => (started.push(one), one);
  try {
    const apple = keep(await SimulatedApple.start(folder, clientIds));
    const webhooks = keep(await Webhooks.start());
    const siwatch = keep(await Daemon.start(folder, apple, webhooks, config));
    return { apple, webhooks, siwatch, stop };
  } catch (error) {
    await stop();
    throw error;
  }
}

const door = (port, webhooks) => `
[operations]
listen = ""
socket = ""
[log]
format = "text"
[http]
listen = "127.0.0.1:${port}"
max_requests_per_second = 1000000
[[http.client]]
name = "backend"
token_files = ["backend.token"]
may = ["notify", "sign_in", "delete", "read"]
[[delivery]]
name = "backend"
url = "${webhooks}"
secret_files = ["backend.whsec"]
email = true
`;
