# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The siwatch authors
"""A backend with FastAPI that asks siwatch over HTTP."""

import os
import secrets
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Annotated

import httpx
from anyio import CapacityLimiter, to_thread
from fastapi import Depends, FastAPI, HTTPException, Request, Response
from fastapi.responses import JSONResponse
from fastapi.security import APIKeyCookie
from pydantic import BaseModel, Field
from sessions import Session, Sessions
from siwatch import SignInRejected, Siwatch, SiwatchError, WebhookRejected, verify_webhook

SIWATCH_URL, SIWATCH_TOKEN = os.environ["SIWATCH_URL"], os.environ["SIWATCH_TOKEN"]
WEBHOOK_SECRETS = os.environ["SIWATCH_WEBHOOK_SECRET"].split()
CLIENT_ID = os.environ["CLIENT_ID"]

siwatch = Siwatch(SIWATCH_URL, SIWATCH_TOKEN)
# The client blocks a thread. A sign-in may wait ten seconds for Apple, so sign-ins have threads of their own.
sign_in_threads = CapacityLimiter(40)


sessions = Sessions()
receipts: dict[str, str] = {}  # Secret links to the ids of deletions.


@asynccontextmanager
async def lifespan(app: FastAPI) -> AsyncIterator[None]:
    async with httpx.AsyncClient(base_url=SIWATCH_URL, headers={"Authorization": f"Bearer {SIWATCH_TOKEN}"}) as app.state.http:
        yield


app = FastAPI(lifespan=lifespan)
cookie = APIKeyCookie(name="session", auto_error=False)


@app.exception_handler(SiwatchError)
async def away(_: Request, error: SiwatchError) -> Response:
    """A mistake goes on, so that the answer is 500 and the log has it: a backend that swallows it ends no session."""
    if not error.is_temporary:
        raise error
    return JSONResponse({"reason": "siwatch is away. Try again later."}, 503)


def current_session(key: Annotated[str | None, Depends(cookie)]) -> Session:
    """The session of a request. Ends it if the user has withdrawn consent since the sign-in."""
    session = sessions.find(key) if key else None
    if not key or not session:
        raise HTTPException(401)
    try:
        ends = siwatch.ends_session(session.user_id, session.signed_in_at)
    except SiwatchError as error:
        if not error.is_temporary:
            raise
        ends = False  # siwatch is away: that is no reason to sign anybody out.
    if ends:
        sessions.end(key)
        raise HTTPException(401)
    return session


CurrentSession = Annotated[Session, Depends(current_session)]


class NewSignIn(BaseModel):
    code: Annotated[str, Field(pattern=r"^[!-~]{1,8192}$")]  # as in siwatch's OpenAPI document
    nonce: Annotated[str, Field(pattern=r"^[!-~]{1,512}$")] | None = None


@app.post("/sign-in")
async def sign_in(new: NewSignIn) -> Response:
    try:
        told = await to_thread.run_sync(lambda: siwatch.sign_in(CLIENT_ID, new.code, nonce=new.nonce), limiter=sign_in_threads)
    except SignInRejected as error:
        return JSONResponse({"reason": error.reason}, 401)
    if not told.user or told.signed_in_at is None:
        raise HTTPException(503, "Apple does not answer. Sign in again later.")
    key = sessions.begin(Session(told.user.user_id, told.signed_in_at))
    answer = JSONResponse({"user_id": told.user.user_id})
    answer.set_cookie("session", key, httponly=True, samesite="lax")  # and secure=True behind TLS
    return answer


@app.get("/me")
def me(session: CurrentSession) -> dict[str, str]:
    return {"user_id": session.user_id}


@app.delete("/account", status_code=202)
def delete_account(session: CurrentSession) -> dict[str, str]:
    deletion = siwatch.delete(CLIENT_ID, session.user_id)  # Tell siwatch first, then delete your own rows.
    sessions.end_all(session.user_id)
    receipts[ticket := secrets.token_urlsafe(32)] = deletion.id
    return {"receipt": f"/receipts/{ticket}"}


@app.get("/receipts/{ticket}")
def receipt(ticket: str) -> dict[str, object]:
    if ticket not in receipts:
        raise HTTPException(404)
    deletion = siwatch.deletion(receipts[ticket])
    return {"outcome": deletion.outcome, "tokens": deletion.tokens}


@app.post("/siwatch", status_code=204)
async def webhook(request: Request) -> None:
    try:
        event = verify_webhook(WEBHOOK_SECRETS, request.headers, await request.body())
    except WebhookRejected as error:
        raise HTTPException(400, str(error)) from error
    if before := event["data"].get("ends_sessions_before"):
        sessions.end_before(event["data"]["user_id"], before)


@app.post("/apple/notifications")
async def notification(request: Request) -> Response:
    """Only if no reverse proxy hands Apple's notifications to siwatch. Apple tries again after any answer but 200."""
    try:
        answer = await request.app.state.http.post("/v1/notifications", content=await request.body())
    except httpx.HTTPError:
        return Response(status_code=503)
    return Response(status_code=answer.status_code)
