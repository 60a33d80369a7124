# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The siwatch authors
from django.db import migrations, models


class Migration(migrations.Migration):
    initial = True

    dependencies = []

    operations = [
        migrations.CreateModel(
            name="User",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("password", models.CharField(max_length=128, verbose_name="password")),
                ("last_login", models.DateTimeField(blank=True, null=True, verbose_name="last login")),
                ("apple_id", models.CharField(max_length=255, unique=True)),
                ("sessions_end_before", models.BigIntegerField(default=0)),
            ],
            options={
                "abstract": False,
            },
        ),
        migrations.CreateModel(
            name="Receipt",
            fields=[
                ("ticket", models.CharField(max_length=64, primary_key=True, serialize=False)),
                ("deletion", models.CharField(max_length=40)),
            ],
        ),
    ]
