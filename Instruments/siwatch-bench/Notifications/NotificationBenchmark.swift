// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import AppleSimulatorKit
import DaemonHarness
import Foundation

/// How many notifications a second siwatch settles from a full queue, from row to commit.
struct NotificationBenchmark: Sendable {
    let count: Int

    func run() async throws -> Section {
        say("Notifications")
        return try await Workplace.use { place in
            let users = try await place.makeCredentials(count).map(\.userID)
            say("  Apple signs \(count) notifications")
            let bodies = try await place.notify(RevokeConsent(), users)
            try await place.withBackend { try await $0.insert(notifications: bodies) }
            // The file is complete without its log, because the backend was the last to close it.
            let queued = place.folder.url.appending(path: "queued.sqlite")
            try FileManager.default.copyItem(at: URL(filePath: place.folder.databasePath), to: queued)
            let bare = BareSettlement(queued: queued, users: users)

            let before = try await limits(bare)
            say("  siwatch settles them")
            let (rate, usage) = try await place.settleNotifications(count)
            let after = try await limits(bare)
            let limits = zip(before, after).map(Limit.mean)
            return Section(
                "Notifications, from row to commit, synchronous=FULL (× = siwatch ÷ limit)",
                [.ours("siwatch, \(count) consent-revoked", rate)]
                    + limits.map { .limit($0, of: rate) }
                    + [
                        .init("siwatch's processor time for each", usage.processorTime.perPiece(count)),
                        .init("siwatch's writes for each", usage.written.perPiece(count)),
                        .init("siwatch's resident memory afterwards", usage.memory),
                    ],
                arguments: "--only notifications --notifications \(count)"
            )
        }
    }

    private func limits(_ bare: BareSettlement) async throws -> [Limit] {
        say("  the machine's limits")
        return [
            try await OpenSSLSpeed.verifications(by: 1),
            try await OpenSSLSpeed.verifications(by: 2),
            try bare.limit(.least),
            try bare.limit(.everything),
        ]
    }
}
