# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The siwatch authors
import json
import time

from accounts.models import User
from django.conf import settings
from django.test import TestCase

from .models import GrantOutcome, Revocation, UserState


class Sessions(TestCase):
    databases = {"default", *settings.DATABASES}

    def setUp(self):
        user = User.objects.create(apple_id="000341.5c8d.0917")
        self.client.force_login(user)
        session = self.client.session
        session["signed_in_at"] = 1_790_000_000_999
        session.save()

    def state(self, state, reason, changed_at):
        UserState.objects.create(app="example", user_id="000341.5c8d.0917", state=state, reason=reason, changed_at=changed_at)

    def test_a_later_withdrawal_ends_the_session(self):
        self.state("revoked", "consent_revoked", 1_790_000_001_000)
        self.assertEqual(self.client.get("/me").status_code, 401)

    def test_an_older_withdrawal_does_not(self):
        self.state("revoked", "consent_revoked", 1_790_000_000_999)
        self.assertEqual(self.client.get("/me").status_code, 200)

    def test_a_session_that_is_dated_ahead_ends(self):
        session = self.client.session
        session["signed_in_at"] = int(time.time() + 3600) * 1000
        session.save()
        self.state("revoked", "consent_revoked", 1_790_000_001_000)
        self.assertEqual(self.client.get("/me").status_code, 401)

    def test_a_user_unknown_to_siwatch_stays(self):
        self.assertEqual(self.client.get("/me").status_code, 200)
        self.state("notFound", "never_granted", None)
        self.assertEqual(self.client.get("/me").status_code, 200)

    def test_a_deletion_is_told_to_siwatch(self):
        self.assertEqual(self.client.delete("/account").status_code, 202)
        self.assertEqual(Revocation.objects.count(), 1)  # On PostgreSQL a backend reads nothing of a queue but the id.
        self.assertEqual(self.client.get("/me").status_code, 401)

    def test_a_rejected_code_signs_nobody_in(self):
        # No siwatch is at work in a test: a row stands for its answer, with the id that the next grant gets.
        for id in range(1, 20):
            GrantOutcome.objects.create(id=id, outcome="rejected", reason="code_expired")
        answer = self.client.post("/sign-in", json.dumps({"code": "c1a2"}), content_type="application/json")
        self.assertEqual((answer.status_code, answer.json()["reason"]), (401, "code_expired"))
