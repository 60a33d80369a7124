// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import BoundedHTTP
import Webhooks

/// The secrets that a delivery signs with, and the authorities that it trusts, read and found usable.
struct DeliveryKeys: Sendable {
    /// Two while a secret changes.
    var secrets: [WebhookSecret] = []
    /// Nil for the authorities of the host.
    var authorities: TrustedAuthorities?
}
