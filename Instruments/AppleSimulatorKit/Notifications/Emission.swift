// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

/// The details of a notification beyond its event. An absent detail is as Apple would have it.
package struct Emission: Sendable {
    /// When the event took place; now, if absent. An earlier moment makes a notification that comes late.
    package var eventTime: Moment?
    /// When the notification was signed; now, if absent.
    package var issuedAt: Moment?
    /// Its style; the configured one, if absent.
    package var style: NotificationStyle?
    /// Whether the simulator posts it to the configured endpoint. `false` makes a notification that Apple lost.
    package var isDelivered = true

    package init() {}
}
