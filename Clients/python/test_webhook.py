# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The siwatch authors

import base64
import unittest
from typing import Any

from siwatch import WebhookRejected, verify_webhook

# The vector of the Standard Webhooks libraries.
SECRET = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
OTHER_SECRET = "whsec_" + base64.b64encode(b"another secret of 24 bytes").decode()
BODY = b'{"test": 2432232314}'
TIME = 1614265330
SIGNATURE = "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="
HEADERS = {"webhook-id": "msg_p5jXN8AQM9LWM0D4loKWxJek", "webhook-timestamp": str(TIME), "webhook-signature": SIGNATURE}


class WebhookTests(unittest.TestCase):
    def verify(self, headers: "dict[str, str]" = {}, body: bytes = BODY, now: float = TIME, secrets: "list[str]" = [SECRET]) -> Any:
        return verify_webhook(secrets, {**HEADERS, **headers}, body, now=now)

    def test_the_vector_is_accepted(self) -> None:
        self.assertEqual(self.verify(), {"test": 2432232314})

    def test_names_of_headers_are_of_any_case(self) -> None:
        headers = {name.title(): value for name, value in HEADERS.items()}
        self.assertEqual(verify_webhook([SECRET], headers, BODY, now=TIME), {"test": 2432232314})

    def test_a_secret_needs_no_prefix(self) -> None:
        self.verify(secrets=[SECRET[len("whsec_") :]])

    def test_either_secret_counts_while_one_changes(self) -> None:
        self.verify(secrets=[OTHER_SECRET, SECRET])
        self.verify(secrets=[SECRET, OTHER_SECRET])

    def test_one_good_signature_among_several_is_enough(self) -> None:
        self.verify({"webhook-signature": f"v1,AAAA v1a,{SIGNATURE[3:]} {SIGNATURE} nonsense"})

    def test_the_time_may_differ_by_the_tolerance_both_ways(self) -> None:
        self.verify(now=TIME + 300)
        self.verify(now=TIME - 300)

    def test_what_is_wrong_is_rejected(self) -> None:
        cases: "dict[str, dict[str, Any]]" = {
            "another secret": {"secrets": [OTHER_SECRET]},
            "another body": {"body": BODY + b" "},
            "another id": {"headers": {"webhook-id": "msg_2"}},
            "no id": {"headers": {"webhook-id": ""}},
            "another time": {"headers": {"webhook-timestamp": str(TIME + 1)}},
            "no time": {"headers": {"webhook-timestamp": ""}},
            "a time that is no whole number": {"headers": {"webhook-timestamp": f"{TIME}.0"}},
            "a time of too many digits": {"headers": {"webhook-timestamp": "9" * 5000}},
            "an old webhook": {"now": TIME + 301},
            "a webhook from the future": {"now": TIME - 301},
            "no signature": {"headers": {"webhook-signature": ""}},
            "a signature of another version": {"headers": {"webhook-signature": "v2" + SIGNATURE[2:]}},
            "a signature without a version": {"headers": {"webhook-signature": SIGNATURE[3:]}},
            "half a signature": {"headers": {"webhook-signature": SIGNATURE[:-10]}},
            "a signature that is not ASCII": {"headers": {"webhook-signature": "v1,\u00e9\udc80"}},
        }
        for name, change in cases.items():
            with self.subTest(name), self.assertRaises(WebhookRejected):
                self.verify(**change)

    def test_a_parsed_body_is_an_error_that_says_how_to_get_the_raw_one(self) -> None:
        self.assertEqual(self.verify(body=memoryview(BODY)), {"test": 2432232314})  # type: ignore[arg-type]
        parsed: "list[Any]" = [BODY.decode(), {"test": 2432232314}, None]
        for body in parsed:
            with self.subTest(body), self.assertRaisesRegex(TypeError, r"request\.get_data\(\)"):
                self.verify(body=body)

    def test_a_bad_secret_is_an_error(self) -> None:
        for secrets in (["whsec_"], [""], ["whsec_no base64!"], ["backend.whsec"], []):
            with self.subTest(secrets), self.assertRaisesRegex(ValueError, "siwatch secret new webhook"):
                self.verify(secrets=secrets)


if __name__ == "__main__":
    unittest.main()
