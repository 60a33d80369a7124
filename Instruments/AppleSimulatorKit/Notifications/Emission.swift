// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

/// What to say about an event beyond the event itself. Everything absent is as Apple would have it.
package struct Emission: Sendable {
    /// When the event took place; now, if absent. An earlier moment makes a notification that comes late.
    package var eventTime: Moment?
    /// When the notification was signed; now, if absent.
    package var issuedAt: Moment?
    /// How it looks; as the configuration says, if absent.
    package var style: NotificationStyle?
    /// Whether it is posted to the configured endpoint. `false` is a notification that Apple lost.
    package var isDelivered = true

    package init() {}
}
