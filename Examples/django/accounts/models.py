# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The siwatch authors
from django.contrib.auth.models import AbstractBaseUser, BaseUserManager
from django.db import models


class User(AbstractBaseUser):
    """A user, by Apple's `sub`. Has no password."""

    apple_id = models.CharField(max_length=255, unique=True)
    # One number ends all older sessions, also one that begins when its webhook has passed. No session has to be found.
    sessions_end_before = models.BigIntegerField(default=0)

    USERNAME_FIELD = "apple_id"
    objects = BaseUserManager()


class Receipt(models.Model):
    """A secret link to a deletion at siwatch. It outlives the user, so it does not name the user."""

    ticket = models.CharField(max_length=64, primary_key=True)
    deletion = models.CharField(max_length=40)
