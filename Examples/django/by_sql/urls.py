# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The siwatch authors
from accounts.views import me
from django.urls import path

from . import views

urlpatterns = [
    path("sign-in", views.sign_in),
    path("me", me),
    path("account", views.delete_account),
    path("receipts/<ticket>", views.receipt),
    path("apple/notifications", views.notification),
]
