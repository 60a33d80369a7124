// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

package import CredentialCore
import Foundation
import NIOConcurrencyHelpers

/// Tells one receiver of every change, at least once.
///
/// It asks the store where it is, sends what comes next, and moves the cursor. If it dies in between, it sends the same messages again, with
/// the same ids.
package struct Delivery: Sendable {
    package let name: String
    private let desk: any DeliveryDesk & BackendDesk
    private let apps: Set<String>?
    private let types: Set<WebhookType>
    private let withAddress: Bool
    private let clock: WallClock
    private let receiver: @Sendable () async throws -> Receiver
    private let note: @Sendable (DeliveryNews) -> Void

    /// What comes before the next round.
    package enum Rest: Sendable, Equatable {
        /// There may be more at once.
        case none
        /// Nothing is left.
        case idle
        /// The receiver cannot be reached or wants time. Nothing was lost: the cursor stands.
        ///
        /// - Parameters:
        ///   - time: how long the receiver asks to be left alone; nil if it asks for nothing.
        ///   - reason: in a few words.
        ///   - isThere: whether it took some in this round.
        case pause(_ time: Duration?, _ reason: String, isThere: Bool)
    }

    /// After a failure, by how often it failed: the schedule of Standard Webhooks 1.0.
    static let waits: [Duration] = [
        .seconds(5), .minutes(5), .minutes(30), .hours(2), .hours(5), .hours(10), .hours(14), .hours(20), Retry.longestWait,
    ]
    private static let page = 200
    private static let width = 16
    /// With more that failed, the receiver itself is at fault, and nothing new is sent.
    private static let mostWaiting = 10_000
    /// If it refuses so many in a row and takes none, the receiver itself is at fault too: a wrong path, or another secret. Then siwatch
    /// waits, as for one that is away.
    private static let mostRefused = 3
    private let refusals = NIOLockedValueBox(0)
    private let hearing = NIOLockedValueBox(Hearing())

    /// What this process has heard from the receiver.
    private struct Hearing {
        /// When it last judged a message.
        var lastAt: Timestamp?
        /// How often in a row it judged none of the messages that were sent again.
        var silences = 0

        /// How long a message waits that nobody has looked at. The next one is not held up by that.
        var wait: Duration { min(Delivery.waits[0] * (1 << min(silences, 10)), Delivery.waits[1]) }
    }

    package init(
        _ name: String,
        _ desk: any DeliveryDesk & BackendDesk,
        apps: Set<String>?,
        types: Set<WebhookType>,
        withAddress: Bool,
        clock: WallClock,
        receiver: @escaping @Sendable () async throws -> Receiver,
        note: @escaping @Sendable (DeliveryNews) -> Void
    ) {
        self.name = name
        self.desk = desk
        self.apps = apps
        self.types = types
        self.withAddress = withAddress
        self.clock = clock
        self.receiver = receiver
        self.note = note
    }

    /// Tells where it is, and sends nothing.
    package func look() async throws {
        if let position = try await desk.delivery(name) { note(.position(position)) }
    }

    /// Sends what is due.
    package func round() async throws -> Rest {
        guard let position = try await desk.delivery(name) else {
            try await desk.beginDelivery(name)
            note(.begunAnew)
            return .idle
        }
        note(.position(position))
        guard position.stoppedAt == nil else { return .idle }
        // No more than go out at a time: changes at which the receiver hangs hold up the new ones for one time-out at most.
        let retries = position.waiting == 0 ? [] : try await desk.dueRetries(of: name, upTo: Self.width, at: clock.now)
        guard !retries.isEmpty || position.cursor != position.newest else { return .idle }
        let receiver = try await receiver()
        let answers = try await send(again: retries, to: receiver)
        if let rest = try await conclude(answers) { return rest }
        let rest = position.waiting < Self.mostWaiting ? try await goOn(from: position, receiver) : .idle
        // More of them may be due. While nobody looks at them, they have time.
        let mayGoOn = retries.count == Self.width && (answers.isEmpty || answers.contains(where: \.isAnswer))
        return rest == .idle && mayGoOn ? Rest.none : rest ?? Rest.none
    }

    private func send(again retries: [Retry], to receiver: Receiver) async throws -> [Receiver.Answer] {
        let wanted = retries.filter { isWanted($0.change) }
        let answers = try await send(wanted.map(\.change), to: receiver)
        var delivered = retries.filter { !isWanted($0.change) }.map(\.change.id)
        var failed: [FailedChange] = []
        let hearing = hearing.withLockedValue { hearing in
            hearing.silences = answers.isEmpty || answers.contains(where: \.isAnswer) ? 0 : hearing.silences + 1
            return hearing
        }
        // A stop ends the requests. What it cut off stays as it was.
        let isStopping = Task.isCancelled
        for (retry, answer) in zip(wanted, answers) where answer.isAnswer || answer.asksForTime || !isStopping {
            if answer == .taken { delivered.append(retry.change.id) }
            let wasThere = hearing.lastAt.map { $0 > retry.failedAt } ?? false
            let failure = failure(of: retry.change.id, after: retry.failures, answer, ifAbsent: wasThere ? nil : hearing.wait)
            if let failure { failed.append(failure) }
        }
        try await desk.settle(name, delivered: delivered, failed: failed, at: clock.now)
        let dead = failed.count { $0.dueAt == nil }
        if dead > 0 { note(.sent(.dead, dead)) }
        return answers
    }

    private func goOn(from position: DeliveryPosition, _ receiver: Receiver) async throws -> Rest? {
        let page = try await desk.changes(after: position.cursor, of: nil, upTo: Self.page)
        if page.isGone(after: position.cursor) {
            let next = position.cursor > page.newest.id ? page.newest.id : page.oldest - 1
            try await desk.advance(name, from: position.cursor, to: next, failed: [], at: clock.now)
            note(.skipped(from: position.cursor, to: next))
            return nil
        }
        guard let last = page.changes.last else { return .idle }
        let wanted = page.changes.filter(isWanted)
        let answers = try await send(wanted, to: receiver)
        if let rest = try await conclude(answers) { return rest }
        // If it took another one, the receiver is there, and the change is at fault that got no good answer.
        if !answers.contains(.taken), let rest = throttling(answers) ?? absence(answers[...]) { return rest }
        if let rest = restAfterRefusals(answers) { return rest }
        // All that came after its last answer has found it away, and is sent again. A stop cuts off others, which are at no fault.
        let heard = Task.isCancelled ? answers.firstIndex { !$0.isAnswer } ?? answers.count : (answers.lastIndex { $0.isAnswer } ?? -1) + 1
        let next = heard < wanted.count ? wanted[heard].id - 1 : last.id
        let failed = zip(wanted, answers).prefix(heard).compactMap { change, answer in
            failure(of: change.id, after: 0, answer, ifAbsent: nil)
        }
        try await desk.advance(name, from: position.cursor, to: next, failed: failed, at: clock.now)
        return throttling(answers) ?? absence(answers[heard...], isThere: true)
    }

    /// One change that is refused holds up no other. While all are refused, none is given up.
    private func restAfterRefusals(_ answers: [Receiver.Answer]) -> Rest? {
        let reasons = answers.compactMap { if case .refused(let reason) = $0 { reason } else { nil } }
        guard let reason = reasons.first, reasons.count == answers.count else { return nil }
        let inARow = refusals.withLockedValue { count in
            count += reasons.count
            return count
        }
        return inARow < Self.mostRefused ? nil : .pause(nil, reason, isThere: false)
    }

    /// Notes the answers.
    ///
    /// - Returns: nil unless the receiver is gone for ever.
    private func conclude(_ answers: [Receiver.Answer]) async throws -> Rest? {
        let taken = answers.count { $0 == .taken }
        if taken > 0 {
            refusals.withLockedValue { $0 = 0 }
            note(.sent(.taken, taken))
        }
        for answer in answers {
            switch answer {
            case .taken: break
            case .refused: note(.sent(.refused, 1))
            case .silent where Task.isCancelled: break
            case .silent, .busy: note(.sent(.silent, 1))
            case .gone:
                try await desk.stop(name, since: clock.now)
                note(.stopped)
                return .idle
            }
        }
        return nil
    }

    /// The pause for a receiver that does not answer or is busy; nil if it is neither. What was asked is asked again later.
    private func absence(_ answers: ArraySlice<Receiver.Answer>, isThere: Bool = false) -> Rest? {
        for answer in answers {
            switch answer {
            case .silent(let reason), .busy(_, let reason): return .pause(nil, reason, isThere: isThere)
            case .taken, .refused, .gone: break
            }
        }
        return nil
    }

    /// The longest pause that the receiver asks for; nil if it asks for none.
    private func throttling(_ answers: [Receiver.Answer]) -> Rest? {
        var longest: (time: Duration, reason: String)?
        for case .busy(let time?, let reason) in answers where time >= longest?.time ?? .zero { longest = (time, reason) }
        return longest.map { .pause($0.time, $0.reason, isThere: answers.contains(.taken)) }
    }

    /// - Parameter pause: for the next try, if the receiver may be away: it has judged no other change since the last try of this one.
    /// - Returns: nil if the change is not to be tried again.
    private func failure(of id: Int64, after failures: Int, _ answer: Receiver.Answer, ifAbsent pause: Duration?) -> FailedChange? {
        let (step, last) = (min(failures, Self.waits.count - 1), Self.waits.count - 1)
        switch answer {
        case .taken, .gone: return nil
        // The receiver has not looked at it: it wants time.
        case .busy(let time?, let reason):
            return FailedChange(id: id, failures: failures, dueAt: clock.now.advanced(by: max(time, Self.waits[0])), reason: reason)
        // The receiver is away, and looks at no change. It gets this one soon after it is back.
        case .silent(let reason), .busy(nil, let reason):
            if let pause { return FailedChange(id: id, failures: failures, dueAt: clock.now.advanced(by: pause), reason: reason) }
            // It does not die of that, because a receiver may be away for longer than the schedule lasts.
            return FailedChange(
                id: id,
                failures: min(failures + 1, last),
                dueAt: clock.now.advanced(by: Self.waits[step]),
                reason: reason
            )
        case .refused(let reason):
            let dueAt = failures > last ? nil : clock.now.advanced(by: Self.waits[step])
            return FailedChange(id: id, failures: failures + 1, dueAt: dueAt, reason: reason)
        }
    }

    private func isWanted(_ change: PublishedChange) -> Bool {
        !change.isOfNobody && apps?.contains(change.app) ?? true && types.contains(WebhookType(change))
    }

    /// Sends no more once the receiver asks for time.
    ///
    /// - Returns: an answer for each change that was sent, in their order.
    private func send(_ changes: [PublishedChange], to receiver: Receiver) async throws -> [Receiver.Answer] {
        try await withThrowingTaskGroup(of: (Int, Receiver.Answer).self) { group in
            var answers = [Receiver.Answer](repeating: .silent(""), count: changes.count)
            var sent = 0
            for index in changes.indices {
                if index >= Self.width, let (index, answer) = try await group.next() {
                    answers[index] = answer
                    if answer.asksForTime { break }
                }
                group.addTask { (index, try await send(changes[index], to: receiver)) }
                sent += 1
            }
            for try await (index, answer) in group { answers[index] = answer }
            if answers.contains(where: \.isAnswer) {
                hearing.withLockedValue { $0 = Hearing(lastAt: clock.now) }
            }
            return Array(answers.prefix(sent))
        }
    }

    private func send(_ change: PublishedChange, to receiver: Receiver) async throws -> Receiver.Answer {
        let user = try await desk.userState(of: change.userID, in: change.app)
        return await receiver.send(WebhookMessage(change, of: user, withAddress: withAddress), at: clock.now)
    }
}

extension Receiver.Answer {
    /// Whether the receiver has judged the message.
    fileprivate var isAnswer: Bool {
        switch self {
        case .taken, .refused, .gone: true
        case .silent, .busy: false
        }
    }

    /// Whether the receiver wants to be left alone for a time.
    fileprivate var asksForTime: Bool {
        if case .busy(_?, _) = self { true } else { false }
    }
}
