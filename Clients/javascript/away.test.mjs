// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import assert from "node:assert/strict";
import { once } from "node:events";
import { createServer as createDoor } from "node:http";
import { createServer } from "node:net";
import test, { mock } from "node:test";

import { Siwatch, SiwatchError } from "./siwatch.mjs";

/** Runs `body` with the URL of a siwatch that is stopped, or frozen: then its connections are taken, and nobody answers. */
async function withAway(isFrozen, body) {
  const sockets = [];
  const server = createServer((socket) => (isFrozen ? sockets.push(socket) : socket.destroy()));
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  try {
    await body(`http://127.0.0.1:${server.address().port}`);
  } finally {
    for (const socket of sockets) socket.destroy();
    server.close();
  }
}

const isAway = (error) => error instanceof SiwatchError && error.isTemporary && error.status === undefined;

for (const isFrozen of [false, true]) {
  test(`two hundred questions to a ${isFrozen ? "frozen" : "stopped"} siwatch wait as one`, async () => {
    await withAway(isFrozen, async (url) => {
      const siwatch = new Siwatch(url, "t", { patience: 0.5, away: 60 });
      const begun = performance.now();
      const ask = async () => {
        for (let number = 0; number < 10; number++) await assert.rejects(siwatch.endsSession("ann", 5), isAway);
      };
      await Promise.all(Array.from({ length: 20 }, ask));
      assert(performance.now() - begun < 2000);
    });
  });

  test(`a question to a ${isFrozen ? "frozen" : "stopped"} siwatch waits two seconds by itself`, async () => {
    await withAway(isFrozen, async (url) => {
      const begun = performance.now();
      await assert.rejects(new Siwatch(url, "t").endsSession("ann", 5), isAway);
      assert(Math.abs(performance.now() - begun - 2000) < 500);
    });
  });
}

/** Runs `body` with the URL of a door that answers with these statuses in turn, and counts its requests. */
async function withDoor(statuses, body) {
  const taken = [];
  const server = createDoor((request, response) => {
    taken.push(request.url);
    request.resume();
    const status = statuses.shift();
    response.writeHead(status, { "content-type": "application/json", ...(status === 503 && { "retry-after": "60" }) });
    response.end('{"ends_session": true, "title": "No"}');
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  try {
    await body(`http://127.0.0.1:${server.address().port}`, taken);
  } finally {
    server.close();
    server.closeAllConnections?.();
  }
}

test("one call finds out that siwatch is back", async () => {
  await withDoor([503, 503, 200, 200], async (url, taken) => {
    const siwatch = new Siwatch(url, "t", { away: 5 });
    const now = performance.now.bind(performance);
    let ahead = 0;
    const clock = mock.method(performance, "now", () => now() + ahead);
    try {
      await assert.rejects(siwatch.endsSession("ann", 5), { status: 503 });
      await assert.rejects(siwatch.endsSession("ann", 5), isAway);
      ahead = 5100;
      await Promise.all([assert.rejects(siwatch.endsSession("ann", 5), { status: 503 }), assert.rejects(siwatch.endsSession("ann", 5), isAway)]);
      ahead = 10_200;
      for (let number = 0; number < 2; number++) assert.equal(await siwatch.endsSession("ann", 5), true);
    } finally {
      clock.mock.restore();
    }
    assert.equal(taken.length, 4);
  });
});

test("sign-ins are refused and questions answered at once", async () => {
  await withDoor([503, 200, 401, 401], async (url, taken) => {
    const siwatch = new Siwatch(url, "t");
    await assert.rejects(siwatch.signIn({ clientId: "app", code: "c" }), { status: 503 });
    await assert.rejects(siwatch.signIn({ clientId: "app", code: "c" }), isAway);
    assert.equal(await siwatch.endsSession("ann", 5), true);
    // A mistake is no absence.
    for (let number = 0; number < 2; number++) await assert.rejects(siwatch.position(), { status: 401 });
    assert.equal(taken.length, 4);
  });
});
