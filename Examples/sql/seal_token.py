# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The siwatch authors
"""Seals a refresh token for token_sealed: docs/schema.md, A sealed token.

Needs the package cryptography. Newer versions of it, and other libraries, bring HPKE themselves.
"""

import base64
import hashlib
import hmac

from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
from cryptography.hazmat.primitives.ciphers.aead import ChaCha20Poly1305
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

KEM, SUITE = b"KEM\x00\x20", b"HPKE\x00\x20\x00\x01\x00\x03"


def extract(suite: bytes, salt: bytes, label: bytes, secret: bytes) -> bytes:
    return hmac.digest(salt, b"HPKE-v1" + suite + label + secret, "sha256")


def expand(suite: bytes, secret: bytes, label: bytes, info: bytes, length: int) -> bytes:
    return hmac.digest(secret, length.to_bytes(2, "big") + b"HPKE-v1" + suite + label + info + b"\1", "sha256")[:length]


def seal_token(public_key: str, token: str, client_id: str, sub: str, granted_at: int) -> bytes:
    """What goes into token_sealed. The row needs the same client_id and user_id. granted_at is in whole milliseconds."""
    recipient = base64.b64decode(public_key.split()[0].removeprefix("siwatch-public-key-1:"))
    ephemeral = X25519PrivateKey.generate()
    encapsulated = ephemeral.public_key().public_bytes(Encoding.Raw, PublicFormat.Raw)
    agreed = extract(KEM, b"", b"eae_prk", ephemeral.exchange(X25519PublicKey.from_public_bytes(recipient)))
    shared = expand(KEM, agreed, b"shared_secret", encapsulated + recipient, 32)
    context = b"\0" + extract(SUITE, b"", b"psk_id_hash", b"") + extract(SUITE, b"", b"info_hash", b"siwatch-token-sealed-1")
    secret = extract(SUITE, shared, b"secret", b"")
    key, nonce = expand(SUITE, secret, b"key", context, 32), expand(SUITE, secret, b"base_nonce", context, 12)
    box = ChaCha20Poly1305(key).encrypt(nonce, token.encode(), f"{client_id}\0{sub}\0{granted_at:d}".encode())
    return b"\1" + hashlib.sha256(recipient).digest()[:4] + granted_at.to_bytes(8, "big") + encapsulated + box
