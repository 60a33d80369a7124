// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import type { Milliseconds, Siwatch, User, WebhookEvent } from "siwatch";

export type { WebhookEvent };

/** Seconds. */
export interface Limit {
  within?: number;
}

/** What a wait asks again and again, until the answer is true. */
export type Look<T> = () => Maybe<T> | Promise<Maybe<T>>;
export type Maybe<T> = T | false | null | undefined;

/** One of Apple's notifications, as the simulator signed it. */
export interface AppleNotification {
  jti: string;
  type: string;
  user_id: string;
  client_id: string;
  event_time: Milliseconds;
  /** The body of the POST, byte by byte. */
  body: string;
}

/** What a notification looks like, and whether it is posted. */
export interface Emission {
  /** `false`: it gets lost. */
  deliver?: boolean;
  event_time?: Milliseconds;
  issued_at?: Milliseconds;
  events_as_object?: boolean;
  event_time_in_seconds?: boolean;
  is_private_email?: "string" | "bool" | "absent";
  deletion_spelling?: "account-delete" | "account-deleted";
  /** `latest`, `primary`, or a client. */
  audience?: string;
  signature?: "genuine" | "forged" | "unknown_key";
  client_id?: string;
}

/** Trouble at Apple, and the requests that it hits. */
export interface Fault {
  endpoint?: "token" | "keys" | "revoke";
  grant_type?: string;
  user_ids?: readonly string[];
  /** 0 to 1. */
  user_share?: number;
  client_id?: string;
  count?: number;
  delay_ms?: number;
  loses?: "request" | "answer";
  status?: number;
  headers?: Record<string, string>;
  body?: string;
  padding?: number;
  connection?: "reset" | "hang" | "cut";
  id_token?: string;
}

/** What the device brings to the backend. The `code` lives five minutes. */
export interface AppleSignIn {
  code: string;
  userId: string;
  clientId: string;
  grantedAt: Milliseconds;
  nonce?: string;
  redirectUri?: string;
  email?: string;
  emailIsPrivate?: boolean;
}

export class SimulatorRefused extends Error {}

export class AppleUser {
  private constructor();
  readonly userId: string;
  signIn(options?: { clientId?: string; nonce?: string; redirectUri?: string }): Promise<AppleSignIn>;
  withdrawConsent(emission?: Emission): Promise<AppleNotification[]>;
  deleteAccount(emission?: Emission): Promise<AppleNotification[]>;
  switchRelay(enabled: boolean, emission?: Emission): Promise<AppleNotification[]>;
  truth(): Promise<unknown>;
}

export class SimulatedApple {
  private constructor();
  static start(folder: string, clientIds?: readonly string[]): Promise<SimulatedApple>;
  readonly url: string;
  /** A siwatch.toml without the tables of the testbed. */
  readonly config: string;
  readonly notificationUrls: string[];
  newUser(address?: "relay" | "own" | "none"): AppleUser;
  control(method: "GET" | "POST" | "PUT" | "DELETE", path: string, body?: object): Promise<any>;
  cause(event: string, userId: string, members?: Emission & Record<string, unknown>): Promise<AppleNotification[]>;
  deliver(notification: AppleNotification): Promise<void>;
  withFault<T>(fault: Fault, body: () => T | Promise<T>): Promise<T>;
  stop(): Promise<void>;
}

export class Webhooks {
  private constructor();
  static start(): Promise<Webhooks>;
  readonly url: string;
  readonly forwardTo: string[];
  readonly events: WebhookEvent[];
  wait(type: string, userId: string, data?: Record<string, unknown>, limit?: Limit): Promise<WebhookEvent>;
  stop(): Promise<void>;
}

export class Daemon {
  private constructor();
  static start(folder: string, apple: SimulatedApple, webhooks: Webhooks, config?: string): Promise<Daemon>;
  readonly app: string;
  readonly client: Siwatch;
  readonly url: string;
  readonly token: string;
  readonly webhookSecret: string;
  readonly notificationUrl: string;
  readonly configFile: string;
  readonly log: string;
  command(...parts: string[]): string;
  start(): Promise<void>;
  stop(): Promise<void>;
  waitForChange<T>(look: Look<T>, limit?: Limit): Promise<T>;
  waitForState(userId: string, state: User["state"], limit?: Limit): Promise<User>;
  waitUntilSessionEnds(userId: string, signedInAt: Milliseconds, limit?: Limit): Promise<void>;
}

export interface Testbed {
  readonly apple: SimulatedApple;
  readonly webhooks: Webhooks;
  readonly siwatch: Daemon;
  stop(): Promise<void>;
}

export function startTestbed(options?: { clientIds?: readonly string[]; config?: string }): Promise<Testbed>;
export function waitUntil<T>(look: Look<T>, options?: Limit & { pause?: number }): Promise<T>;
