// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

// Seals a refresh token for token_sealed: docs/schema.md, A sealed token.

import { createCipheriv, createHash, createHmac, createPublicKey, diffieHellman, generateKeyPairSync } from "node:crypto";

const [kem, suite] = [Buffer.from("KEM\x00\x20"), Buffer.from("HPKE\x00\x20\x00\x01\x00\x03")];
const hmac = (key, ...parts) => createHmac("sha256", key).update(Buffer.concat(parts.map((part) => Buffer.from(part)))).digest();
const extract = (id, salt, label, secret) => hmac(salt, "HPKE-v1", id, label, secret);
const expand = (id, secret, label, info, length) =>
  hmac(secret, [0, length], "HPKE-v1", id, label, info, [1]).subarray(0, length);

// What goes into token_sealed. The row needs the same client_id and user_id. granted_at is in whole milliseconds.
export function sealToken(publicKey, token, clientID, sub, grantedAt) {
  const recipient = Buffer.from(publicKey.trim().split(/\s/)[0].replace("siwatch-public-key-1:", ""), "base64");
  const jwk = { kty: "OKP", crv: "X25519", x: recipient.toString("base64url") };
  const ephemeral = generateKeyPairSync("x25519");
  const encapsulated = Buffer.from(ephemeral.publicKey.export({ format: "jwk" }).x, "base64url");
  const agreed = diffieHellman({ privateKey: ephemeral.privateKey, publicKey: createPublicKey({ key: jwk, format: "jwk" }) });
  const shared = expand(kem, extract(kem, "", "eae_prk", agreed), "shared_secret", Buffer.concat([encapsulated, recipient]), 32);
  const context = Buffer.concat([
    Buffer.from([0]), extract(suite, "", "psk_id_hash", ""), extract(suite, "", "info_hash", "siwatch-token-sealed-1"),
  ]);
  const secret = extract(suite, shared, "secret", "");
  const [key, nonce] = [expand(suite, secret, "key", context, 32), expand(suite, secret, "base_nonce", context, 12)];
  const cipher = createCipheriv("chacha20-poly1305", key, nonce, { authTagLength: 16 });
  cipher.setAAD(Buffer.from(`${clientID}\0${sub}\0${BigInt(grantedAt)}`), { plaintextLength: Buffer.byteLength(token) });
  const box = Buffer.concat([cipher.update(token, "utf8"), cipher.final(), cipher.getAuthTag()]);
  const time = Buffer.alloc(8);
  time.writeBigInt64BE(BigInt(grantedAt));
  return Buffer.concat([Buffer.from([1]), createHash("sha256").update(recipient).digest().subarray(0, 4), time, encapsulated, box]);
}
