# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The siwatch authors
"""Sessions in memory, of one process. Replace them by your table or your Redis."""

import secrets
from dataclasses import dataclass


@dataclass(frozen=True)
class Session:
    user_id: str
    signed_in_at: int


class Sessions:
    """Sessions by their secret id, and for each user the time before which sessions have ended."""

    def __init__(self) -> None:
        self._sessions: dict[str, Session] = {}
        self._ends: dict[str, int] = {}

    def begin(self, session: Session) -> str:
        key = secrets.token_urlsafe(32)
        self._sessions[key] = session
        return key

    def find(self, key: str) -> Session | None:
        session = self._sessions.get(key)
        # The time is kept and asked here, because a webhook may come before the session that it ends.
        return session if session and session.signed_in_at >= self._ends.get(session.user_id, 0) else None

    def end(self, key: str) -> None:
        self._sessions.pop(key, None)

    def end_all(self, user_id: str) -> None:
        self._sessions = {key: session for key, session in self._sessions.items() if session.user_id != user_id}

    def end_before(self, user_id: str, time: int) -> None:
        self._ends[user_id] = max(time, self._ends.get(user_id, 0))
