// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

/** Milliseconds since 1970 UTC. */
export type Milliseconds = number;

export interface Options {
  /** Ends the call with its reason. */
  signal?: AbortSignal;
}

export interface AppOptions extends Options {
  /** The name of the app in the configuration. Needed if there are several. */
  app?: string;
}

export interface NewSignIn extends Options {
  /** The App ID of a native sign-in, the Services ID of one on the web. */
  clientId: string;
  /** The authorization code that the device or the browser brought. It lives five minutes. */
  code?: string;
  /** With a code: what the `nonce` of the id_token has to be. */
  nonce?: string;
  /** With a code of the web: the one that the sign-in named. */
  redirectUri?: string;
  /** Apple's `sub`. With a code it may be left out; if given, Apple has to name the same user. */
  userId?: string;
  /** The refresh token that Apple issued for the code that you have exchanged. */
  refreshToken?: string;
  /** Without a code: the address in the id_token that you have verified. */
  email?: string;
  /** Whether that address is Apple's relay. */
  isPrivateEmail?: boolean;
  /** Without a code: the `iat` of the id_token × 1000 + 999. The time of the request by default. */
  signedInAt?: Milliseconds;
  /** How many seconds to wait for the outcome: 10 by default. */
  wait?: number;
  /** Any text of your own. A later call with it is about the same sign-in. */
  key?: string;
}

export interface User {
  app: string;
  userId: string;
  state: "authorized" | "revoked" | "notFound";
  reason: string;
  changedAt?: Milliseconds;
  verifiedAt?: Milliseconds;
  email?: string;
  isPrivateEmail?: boolean;
  emailForwarding?: "enabled" | "disabled";
}

export interface SignIn {
  id: string;
  clientId: string;
  /** While it is `waiting`, nobody is signed in and there is no `user`. */
  outcome: "waiting" | "applied" | "stale" | "duplicate" | "retold";
  /** Keep it with the session, because `endsSession` asks for it. */
  signedInAt?: Milliseconds;
  /** Apple's guess whether a person signs in: 0 unsupported, 1 unknown, 2 likely real. */
  realUserStatus?: number;
  settledAt?: Milliseconds;
  user?: User;
}

export interface RevokedToken {
  clientId: string;
  /** `proved`: Apple has rejected the token after siwatch revoked it. */
  outcome: string;
  reason?: string;
  settledAt?: Milliseconds;
}

export interface Deletion {
  id: string;
  /** `held` waits for an operator. */
  outcome: "waiting" | "held" | "done";
  requestedAt?: Milliseconds;
  /** The receipt. */
  tokens?: RevokedToken[];
}

export interface Change {
  id: string;
  app: string;
  clientId: string;
  userId: string;
  kind: "state" | "email";
  fromState?: string;
  toState?: string;
  reason?: string;
  email?: string;
  emailForwarding?: string;
  source?: "notification" | "refresh" | "grant" | "revocation";
  occurredAt: Milliseconds;
  recordedAt: Milliseconds;
}

export class SiwatchError extends Error {
  readonly status?: number;
  readonly type?: string;
  readonly detail?: string;
  /** Seconds. */
  readonly retryAfter: number;
  readonly isTemporary: boolean;
}

export class SignInRejected extends SiwatchError {
  readonly reason: string;
  readonly id: string;
}

export class ChangesGone extends SiwatchError {
  readonly next: string;
}

export class WebhookRejected extends Error {}

/** In seconds. */
export interface ClientOptions {
  /** How long siwatch may take for an answer, besides the time that it is asked to wait: 5 by default. */
  timeout?: number;
  /** How long a question may take in all while siwatch is away: 2 by default. */
  patience?: number;
  /** How long calls then fail at once: 5 by default. */
  away?: number;
}

export class Siwatch {
  constructor(url: string | URL, token: string, options?: ClientOptions);
  signIn(signIn: NewSignIn): Promise<SignIn>;
  delete(deletion: { clientId: string; userId: string; requestedAt?: Milliseconds; key?: string } & Options): Promise<Deletion>;
  deletion(id: string, options?: Options): Promise<Deletion>;
  state(userId: string, options?: AppOptions): Promise<User | null>;
  endsSession(userId: string, signedInAt: Milliseconds, options?: AppOptions): Promise<boolean>;
  position(options?: Options): Promise<string>;
  changes(options?: { after?: string; wait?: number } & AppOptions): AsyncGenerator<Change, never, void>;
}

/** What `verifyWebhook` returns, with the names that siwatch sends. Ask for the `type` first. More types may come: answer 2xx to them. */
export type WebhookEvent = RevokedEvent | AccountDeletedEvent | AuthorizedEvent | EmailEvent | DeliveryTestEvent;

export interface ChangeData {
  app: string;
  /** The `id` of the change over HTTP. */
  change_id: string;
  client_id: string;
  user_id: string;
  occurred_at: Milliseconds;
  /** End the user's sessions in `app` that began before. Null while the user is signed in. */
  ends_sessions_before: Milliseconds | null;
}

export interface EventOf<Type extends string, Data> {
  type: Type;
  /** ISO 8601. */
  timestamp: string;
  data: Data;
}

/** The user has withdrawn consent, or the tokens were revoked. */
export interface RevokedEvent extends EventOf<"credential.revoked", ChangeData & { reason: string }> {}
/** The Apple Account is deleted. */
export interface AccountDeletedEvent extends EventOf<"credential.account_deleted", ChangeData & { reason: string }> {}
/** The user has signed in. */
export interface AuthorizedEvent extends EventOf<"credential.authorized", ChangeData & { reason: string }> {}
/** Another address, which comes with `email = true` only, or its forwarding was switched. */
export interface EmailEvent
  extends EventOf<"credential.email", ChangeData & { email?: string; email_forwarding?: "enabled" | "disabled" }> {}
/** `siwatch delivery test`. */
export interface DeliveryTestEvent extends EventOf<"siwatch.test", Record<string, never>> {}

/** Throws `WebhookRejected`, or `TypeError` for a bad secret or a body that was parsed before. */
export function verifyWebhook(
  secrets: readonly string[],
  headers: Headers | Record<string, string | string[] | undefined>,
  body: string | Uint8Array | ArrayBuffer,
  options?: { tolerance?: number; now?: number },
): WebhookEvent;
