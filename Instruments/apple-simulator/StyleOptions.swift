// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import AppleSimulatorKit
import ArgumentParser

/// The options for the style of notifications. A control request may override them for one notification.
struct StyleOptions: ParsableArguments {
    @Flag(help: "Write events as the object of Apple's documents, not as the string of its wire.")
    var eventsAsObject = false

    @Flag(help: "Write event_time in the seconds of Apple's documents, not in the milliseconds of its wire.")
    var eventTimeInSeconds = false

    @Option(help: "Write is_private_email as string or bool, or leave it out: absent.")
    var privateEmail = NotificationStyle.PrivateEmailForm.string

    @Option(help: "Call a deletion account-delete or account-deleted.")
    var deletionSpelling = NotificationStyle.DeletionSpelling.accountDeleted

    @Option(help: "The aud: latest (the client of the user's latest sign-in), primary (the App ID), or a text.")
    var audience = NotificationStyle.Audience.latestClient

    var style: NotificationStyle {
        var style = NotificationStyle()
        style.eventsAsObject = eventsAsObject
        style.eventTimeInSeconds = eventTimeInSeconds
        style.privateEmail = privateEmail
        style.deletionSpelling = deletionSpelling
        style.audience = audience
        return style
    }
}

extension NotificationStyle.Audience: ExpressibleByArgument {}
extension NotificationStyle.PrivateEmailForm: ExpressibleByArgument {}
extension NotificationStyle.DeletionSpelling: ExpressibleByArgument {}
