// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

package import CredentialCore

package struct NotificationHandler: WorkHandler, LanePart {
    let context: LaneContext
    private let verifier: any NotificationVerifier

    package let lane = Lane.notifications
    /// One chunk for each core.
    package let width: Int

    /// Rows in a chunk, and so in a commit. Users come in no order, so the more users a commit holds, the fewer pages each one touches.
    private var chunk: Int { context.signInRush.isOn ? 128 : 4096 }
    /// A chunk is verified in milliseconds. A process that holds it for longer than this is gone.
    private static let lease = Duration.seconds(60)

    package init(verifier: any NotificationVerifier, cores: Int, _ context: LaneContext) {
        self.verifier = verifier
        self.context = context
        width = max(cores, 1)
    }

    package func claim(upTo slots: Int) async throws -> [ArraySlice<ClaimedNotification>] {
        let isIdle = slots == width
        let claimed = try await store.claimNotifications(upTo: slots * chunk, at: clock.now, lease: Self.lease, suspects: isIdle)
        return claimed.chunked(into: slots)
    }

    package func resolve(_ work: ArraySlice<ClaimedNotification>) async -> [Settlement] {
        var settlements: [Settlement] = []
        settlements.reserveCapacity(work.count)
        for notification in work {
            settlements.append(.notification(notification, await verdict(on: notification)))
        }
        return settlements
    }

    private func verdict(on notification: ClaimedNotification) async -> NotificationVerdict {
        if notification.claim.isPoison {
            return .rejected(.poison, detail: "claimed \(notification.claim.attempts - 1) times without a settlement")
        }
        do {
            return .verified(try await verifier.verify(notification.payload, receivedAt: notification.receivedAt))
        } catch {
            switch error {
            case .rejected(let reason, let detail): return .rejected(reason, detail: detail)
            case .keyNotYetKnown(let retryAt), .notYetIssued(let retryAt): return .postponed(until: retryAt)
            }
        }
    }
}

extension Array {
    /// At most `count` slices of nearly equal length.
    func chunked(into count: Int) -> [ArraySlice<Element>] {
        guard !isEmpty else { return [] }
        let size = (self.count + count - 1) / count
        return stride(from: 0, to: self.count, by: size).map { self[$0..<Swift.min($0 + size, self.count)] }
    }
}
