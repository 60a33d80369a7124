# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The siwatch authors
"""What `verify_webhook` returns, for type checkers. The public names are in `siwatch`."""

from __future__ import annotations

from typing import Literal, Optional, TypedDict, Union


class ChangeData(TypedDict):
    app: str
    change_id: str  # The `id` of the change over HTTP.
    client_id: str
    user_id: str
    occurred_at: int
    ends_sessions_before: Optional[int]  # End the user's sessions in `app` that began before. None while the user is signed in.


class StateData(ChangeData):
    reason: str


class EmailData(ChangeData, total=False):
    email: str  # With `email = true` only.
    email_forwarding: Literal["enabled", "disabled"]


class NoData(TypedDict, total=False):
    ends_sessions_before: None  # Never there, and may be asked for, as of each event.


class RevokedEvent(TypedDict):
    """The user has withdrawn consent, or the tokens were revoked."""

    type: Literal["credential.revoked"]
    timestamp: str  # ISO 8601.
    data: StateData


class AccountDeletedEvent(TypedDict):
    """The Apple Account is deleted."""

    type: Literal["credential.account_deleted"]
    timestamp: str
    data: StateData


class AuthorizedEvent(TypedDict):
    """The user has signed in."""

    type: Literal["credential.authorized"]
    timestamp: str
    data: StateData


class EmailEvent(TypedDict):
    """Another address, or its forwarding was switched."""

    type: Literal["credential.email"]
    timestamp: str
    data: EmailData


class DeliveryTestEvent(TypedDict):
    """`siwatch delivery test`."""

    type: Literal["siwatch.test"]
    timestamp: str
    data: NoData


# Compare the `type` first. More types may come: answer 2xx to them.
WebhookEvent = Union[RevokedEvent, AccountDeletedEvent, AuthorizedEvent, EmailEvent, DeliveryTestEvent]
