# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The siwatch authors
from django.urls import path

from . import views

urlpatterns = [
    path("sign-in", views.sign_in),
    path("me", views.me),
    path("account", views.delete_account),
    path("receipts/<ticket>", views.receipt),
    path("siwatch", views.webhook),
    path("apple/notifications", views.notification),
]
