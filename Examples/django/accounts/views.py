# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The siwatch authors
import json
import re
import secrets
import urllib.error
import urllib.request

from django.conf import settings
from django.contrib.auth import login, logout
from django.contrib.auth.hashers import make_password
from django.http import HttpRequest, HttpResponse, JsonResponse
from django.shortcuts import get_object_or_404
from django.views.decorators.csrf import csrf_exempt
from django.views.decorators.http import require_GET, require_http_methods, require_POST
from siwatch import SignInRejected, Siwatch, SiwatchError, WebhookRejected, verify_webhook

from .models import Receipt, User

# Threads share it, and a forked worker makes connections of its own.
siwatch = Siwatch(settings.SIWATCH_URL or "http://127.0.0.1:9465", settings.SIWATCH_TOKEN)


def ends_session(apple_id: str, signed_in_at: int) -> bool:
    try:
        return siwatch.ends_session(apple_id, signed_in_at)
    except SiwatchError as error:
        if not error.is_temporary:
            raise
        return False  # siwatch is away: that is no reason to sign anybody out.


def begin_session(request: HttpRequest, apple_id: str, signed_in_at: int) -> JsonResponse:
    user, _ = User.objects.get_or_create(apple_id=apple_id, defaults={"password": make_password(None)})
    login(request, user)  # changes the session's key
    request.session["signed_in_at"] = signed_in_at
    return JsonResponse({"user_id": apple_id})


def code_and_nonce(request: HttpRequest) -> "tuple[str, str | None] | None":
    """None if the device sends something else. The forms are those of siwatch's OpenAPI document."""
    try:
        members = json.loads(request.body)
        code, nonce = members["code"], members.get("nonce")
        is_right = re.fullmatch("[!-~]{1,8192}", code) and (nonce is None or re.fullmatch("[!-~]{1,512}", nonce))
    except (ValueError, KeyError, TypeError, AttributeError):
        return None
    return (code, nonce) if is_right else None


# The device has no page of ours, so no token of Django's. `nonce` ties the code to the device's own request to Apple.
@csrf_exempt
@require_POST
def sign_in(request):
    if not (given := code_and_nonce(request)):
        return JsonResponse({"reason": "no code"}, status=400)
    try:
        told = siwatch.sign_in(settings.APPLE_CLIENT_ID, given[0], nonce=given[1])
    except SignInRejected as error:
        return JsonResponse({"reason": error.reason}, status=401)
    if not told.user:
        return JsonResponse({"reason": "Apple does not answer. Sign in again later."}, status=503)
    return begin_session(request, told.user.user_id, told.signed_in_at)


@require_GET
def me(request):
    if not request.user.is_authenticated:
        return JsonResponse({}, status=401)
    return JsonResponse({"user_id": request.user.apple_id})


def forget(request: HttpRequest, deletion: str) -> JsonResponse:
    """Deletes the account. Its sessions have no user any more, so they end with it."""
    receipt = Receipt.objects.create(ticket=secrets.token_urlsafe(32), deletion=deletion)
    request.user.delete()
    logout(request)
    return JsonResponse({"receipt": f"/receipts/{receipt.ticket}"}, status=202)


@require_http_methods(["DELETE"])
def delete_account(request):
    if not request.user.is_authenticated:
        return JsonResponse({}, status=401)
    # Tell siwatch first, then delete your own rows: told twice does no harm.
    return forget(request, siwatch.delete(settings.APPLE_CLIENT_ID, request.user.apple_id).id)


@require_GET
def receipt(request, ticket):
    deletion = siwatch.deletion(get_object_or_404(Receipt, ticket=ticket).deletion)
    return JsonResponse({"outcome": deletion.outcome, "tokens": deletion.tokens})


@csrf_exempt
@require_POST
def webhook(request):
    try:
        data = verify_webhook(settings.SIWATCH_WEBHOOK_SECRETS, request.headers, request.body)["data"]
    except WebhookRejected:
        return HttpResponse(status=400)
    if before := data.get("ends_sessions_before"):
        # One statement, so that of two webhooks the later end stays.
        User.objects.filter(apple_id=data["user_id"], sessions_end_before__lt=before).update(sessions_end_before=before)
    return HttpResponse(status=204)


@csrf_exempt
@require_POST
def notification(request):
    """Only if no reverse proxy hands Apple's notifications to siwatch. Apple tries again after any answer but 200."""
    headers = {"Authorization": f"Bearer {settings.SIWATCH_TOKEN}"}
    forwarded = urllib.request.Request(f"{settings.SIWATCH_URL}/v1/notifications", request.body, headers, method="POST")
    try:
        with urllib.request.urlopen(forwarded, timeout=10) as answer:
            return HttpResponse(status=answer.status)
    except urllib.error.HTTPError as error:
        return HttpResponse(status=error.code)
    except OSError:
        return HttpResponse(status=503)
