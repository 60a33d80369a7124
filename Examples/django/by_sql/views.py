# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The siwatch authors
import time

from accounts.models import Receipt
from accounts.views import begin_session, code_and_nonce, forget
from django.conf import settings
from django.db import DatabaseError, router, transaction
from django.db.models import Q
from django.http import HttpResponse, JsonResponse
from django.shortcuts import get_object_or_404
from django.views.decorators.csrf import csrf_exempt
from django.views.decorators.http import require_GET, require_http_methods, require_POST

from .models import Grant, GrantOutcome, Revocation, RevocationOutcome, UserState, keep_notification

ENDED = Q(state="revoked") | Q(state="notFound", reason="account_deleted")


def ends_session(apple_id: str, signed_in_at: int) -> bool:
    """The whole rule, in one look-up by key. It needs no webhook."""
    user = UserState.objects.filter(app=settings.SIWATCH_APP, user_id=apple_id)
    # A time that is minutes ahead is a wrong clock's, and would outlive each revocation.
    is_ahead = signed_in_at > time.time() * 1000 + 300_000
    return user.filter(ENDED, Q() if is_ahead else Q(changed_at__gt=signed_in_at)).exists()


def outcome_of(grant: int, seconds: float = 10) -> GrantOutcome:
    end = time.monotonic() + seconds
    while (outcome := GrantOutcome.objects.get(id=grant)).outcome == "waiting" and time.monotonic() < end:
        time.sleep(0.1)
    return outcome


# siwatch sees the row after its commit only. So this view must not be one transaction, also with ATOMIC_REQUESTS.
@transaction.non_atomic_requests(using=router.db_for_write(Grant))
@csrf_exempt
@require_POST
def sign_in(request):
    if not (given := code_and_nonce(request)):
        return JsonResponse({"reason": "no code"}, status=400)
    grant = Grant.objects.create(client_id=settings.APPLE_CLIENT_ID, authorization_code=given[0], nonce=given[1])
    told = outcome_of(grant.id)
    if told.outcome in ("rejected", "in_future"):
        return JsonResponse({"reason": told.reason}, status=401)
    if told.outcome == "waiting":
        return JsonResponse({"reason": "Apple does not answer. Sign in again later."}, status=503)
    return begin_session(request, told.user_id, told.signed_in_at)


@require_http_methods(["DELETE"])
def delete_account(request):
    if not request.user.is_authenticated:
        return JsonResponse({}, status=401)
    deletion = Revocation.objects.create(client_id=settings.APPLE_CLIENT_ID, user_id=request.user.apple_id)
    return forget(request, str(deletion.id))


@require_GET
def receipt(request, ticket):
    deletion = get_object_or_404(Receipt, ticket=ticket).deletion
    tokens = list(RevocationOutcome.objects.filter(id=deletion).values("client_id", "outcome", "reason"))
    unsettled = {"waiting", "held"} & {token["outcome"] for token in tokens}
    return JsonResponse({"outcome": unsettled.pop() if unsettled else "done", "tokens": tokens})


@csrf_exempt
@require_POST
def notification(request):
    if not 0 < len(request.body) <= 65536:
        return HttpResponse(status=400)
    try:
        keep_notification(request.body)
    except DatabaseError:
        return HttpResponse(status=503)
    return HttpResponse()
