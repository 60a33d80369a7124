# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The siwatch authors
from django.conf import settings
from django.contrib.auth import logout
from django.http import JsonResponse
from django.utils.module_loading import import_string
from siwatch import SiwatchError


class EndedSessions:
    """Logs a user out who has withdrawn consent since the sign-in. So `login_required` and `request.user` work as ever."""

    def __init__(self, get_response):
        self.get_response = get_response
        self.ends_session = import_string(getattr(settings, "ENDS_SESSION", "accounts.views.ends_session"))

    def __call__(self, request):
        if request.user.is_authenticated:
            signed_in_at = request.session.get("signed_in_at", 0)
            if signed_in_at < request.user.sessions_end_before or self.ends_session(request.user.apple_id, signed_in_at):
                logout(request)
        return self.get_response(request)

    def process_exception(self, request, exception):
        """A mistake goes on, so that the answer is 500 and the log has it: a backend that swallows it ends no session."""
        if isinstance(exception, SiwatchError) and exception.is_temporary:
            return JsonResponse({"reason": "siwatch is away. Try again later."}, status=503)
        return None
