# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The siwatch authors
"""The same backend by SQL, on SQLite or PostgreSQL. It needs no webhook: it asks the rule at each request.

DATABASE_URL='sqlite+aiosqlite:///file:/var/lib/siwatch/siwatch.sqlite?mode=rw&uri=true'
DATABASE_URL='postgresql+psycopg://backend@/app'      after ALTER ROLE backend SET search_path TO public, siwatch
"""

import asyncio
import os
import secrets
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Annotated, Any

from fastapi import Depends, FastAPI, HTTPException, Request, Response
from fastapi.responses import JSONResponse
from fastapi.security import APIKeyCookie
from pydantic import BaseModel, Field
from sessions import Session, Sessions
from sqlalchemy import Row, event, text
from sqlalchemy.exc import DBAPIError
from sqlalchemy.ext.asyncio import create_async_engine

APP, CLIENT_ID = os.environ["APP"], os.environ["CLIENT_ID"]

# AUTOCOMMIT: siwatch sees a row after its commit only, and a waiting sign-in holds no transaction open.
engine = create_async_engine(os.environ["DATABASE_URL"], isolation_level="AUTOCOMMIT")
is_sqlite = engine.dialect.name == "sqlite"

NOW = "strftime('%s', 'now') * 1000" if is_sqlite else "extract(epoch FROM now()) * 1000"
# A time that is minutes ahead is a wrong clock's, and would outlive each revocation.
RULE = f"""
    SELECT EXISTS (SELECT 1 FROM user_state
                    WHERE user_id = :user_id AND app = :app
                      AND (state = 'revoked' OR (state = 'notFound' AND reason = 'account_deleted'))
                      AND COALESCE(CAST(:signed_in_at AS BIGINT), 0) NOT BETWEEN changed_at AND {NOW} + 300000)
"""
GRANT = "INSERT INTO grant_queue (client_id, authorization_code, nonce) VALUES (:client_id, :code, :nonce) RETURNING id"
GRANT_OUTCOME = "SELECT outcome, reason, user_id, signed_in_at FROM grant_outcome WHERE id = :id"
REVOCATION = "INSERT INTO revocation_queue (client_id, user_id) VALUES (:client_id, :user_id) RETURNING id"
REVOCATION_OUTCOME = "SELECT client_id, outcome, reason FROM revocation_outcome WHERE id = :id"
# The body is text on SQLite and bytes on PostgreSQL. Bind it as bytes on both.
NOTIFICATION = f"INSERT INTO notification_queue (payload) VALUES ({'CAST(:body AS TEXT)' if is_sqlite else ':body'})"


if is_sqlite:

    @event.listens_for(engine.sync_engine, "connect")
    def set_pragmas(connection: Any, _: Any) -> None:
        cursor = connection.cursor()
        for pragma in ("busy_timeout = 5000", "synchronous = FULL", "wal_autocheckpoint = 0", "secure_delete = ON"):
            cursor.execute(f"PRAGMA {pragma}")
        cursor.close()


async def ask(statement: str, **values: object) -> list[Row[Any]]:
    async with engine.connect() as connection:
        return list((await connection.execute(text(statement), values)).all())


@asynccontextmanager
async def lifespan(_: FastAPI) -> AsyncIterator[None]:
    # A mistyped app has no users: no session would ever end, and nothing would say so.
    if not await ask("SELECT 1 FROM app_client WHERE app = :app AND client_id = :client_id", app=APP, client_id=CLIENT_ID):
        raise RuntimeError(f"siwatch does not know the client {CLIENT_ID} of the app {APP}")
    yield
    await engine.dispose()


app = FastAPI(lifespan=lifespan)
sessions = Sessions()
receipts: dict[str, int] = {}  # Secret links to numbers of deletions, because anybody can guess a number.
cookie = APIKeyCookie(name="session", auto_error=False)


async def current_session(key: Annotated[str | None, Depends(cookie)]) -> Session:
    """The session of a request. Ends it if the user has withdrawn consent since the sign-in."""
    session = sessions.find(key) if key else None
    if not key or not session:
        raise HTTPException(401)
    [row] = await ask(RULE, user_id=session.user_id, app=APP, signed_in_at=session.signed_in_at)
    if row[0]:
        sessions.end(key)
        raise HTTPException(401)
    return session


CurrentSession = Annotated[Session, Depends(current_session)]


class NewSignIn(BaseModel):
    code: Annotated[str, Field(pattern=r"^[!-~]{1,8192}$")]  # as in siwatch's OpenAPI document
    nonce: Annotated[str, Field(pattern=r"^[!-~]{1,512}$")] | None = None


@app.post("/sign-in")
async def sign_in(new: NewSignIn) -> Response:
    [grant] = await ask(GRANT, client_id=CLIENT_ID, code=new.code, nonce=new.nonce)
    end = time.monotonic() + 10
    while (told := (await ask(GRANT_OUTCOME, id=grant.id))[0]).outcome == "waiting" and time.monotonic() < end:
        await asyncio.sleep(0.1)
    if told.outcome == "waiting":
        raise HTTPException(503, "Apple does not answer. Sign in again later.")
    if told.outcome in ("rejected", "in_future"):
        return JSONResponse({"reason": told.reason}, 401)
    key = sessions.begin(Session(told.user_id, told.signed_in_at))
    answer = JSONResponse({"user_id": told.user_id})
    answer.set_cookie("session", key, httponly=True, samesite="lax")  # and secure=True behind TLS
    return answer


@app.get("/me")
async def me(session: CurrentSession) -> dict[str, str]:
    return {"user_id": session.user_id}


@app.delete("/account", status_code=202)
async def delete_account(session: CurrentSession) -> dict[str, str]:
    # Tell siwatch first, then delete your own rows.
    [deletion] = await ask(REVOCATION, client_id=CLIENT_ID, user_id=session.user_id)
    sessions.end_all(session.user_id)
    receipts[ticket := secrets.token_urlsafe(32)] = deletion.id
    return {"receipt": f"/receipts/{ticket}"}


@app.get("/receipts/{ticket}")
async def receipt(ticket: str) -> dict[str, object]:
    if ticket not in receipts:
        raise HTTPException(404)
    tokens = [dict(row._mapping) for row in await ask(REVOCATION_OUTCOME, id=receipts[ticket])]
    unsettled = {"waiting", "held"} & {token["outcome"] for token in tokens}
    return {"outcome": unsettled.pop() if unsettled else "done", "tokens": tokens}


@app.post("/apple/notifications")
async def notification(request: Request) -> Response:
    body = await request.body()
    if not 0 < len(body) <= 65536:
        return Response(status_code=400)
    try:
        async with engine.connect() as connection:
            await connection.execute(text(NOTIFICATION), {"body": body})
    except DBAPIError:
        return Response(status_code=503)  # Apple tries again after any answer but 200.
    return Response()
