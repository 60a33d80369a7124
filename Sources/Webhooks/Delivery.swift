// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

package import CredentialCore

/// Tells one receiver of every change, at least once: it asks the store where it is, sends what comes next, and moves the cursor. If it
/// dies in between, it sends the same messages again, with the same ids.
package actor Delivery {
    package let name: String
    private let desk: any DeliveryDesk & BackendDesk
    private let apps: Set<String>?
    private let types: Set<WebhookType>
    private let withAddress: Bool
    private let clock: WallClock
    private let receiver: @Sendable () async throws -> Receiver
    private let note: @Sendable (DeliveryNews) -> Void

    /// When the receiver last judged a message, and whether it judged one in this round; nil while none was sent.
    private var heardAt: Timestamp?
    private var isHeard: Bool?
    /// How many rounds in a row have found it away or at fault.
    private var misses = 0
    /// How many changes it has refused since it last took one.
    private var refusals = 0

    /// What comes before the next round.
    package enum Rest: Sendable, Equatable {
        /// There may be more at once.
        case none
        /// Nothing is left.
        case idle
        /// The receiver cannot be reached or wants time. Nothing was lost: the cursor stands. It is there if it took some in this round.
        case pause(Duration, _ reason: String, isThere: Bool)
    }

    /// After a failure, by how often it failed: the schedule of Standard Webhooks 1.0.
    private static let waits: [Duration] = [
        .seconds(5), .minutes(5), .minutes(30), .hours(2), .hours(5), .hours(10), .hours(14), .hours(20), StuckChange.longestWait,
    ]
    private static let (page, width) = (200, 16)
    /// With more stuck changes, the receiver itself is at fault, and nothing new is sent.
    private static let mostStuck = 10_000
    /// If it refuses so many in a row and takes none, it is at fault too: a wrong path, or another secret. Then siwatch waits.
    private static let mostRefused = 3

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
        self.clock = clock
        self.receiver = receiver
        self.note = note
        (self.apps, self.types, self.withAddress) = (apps, types, withAddress)
    }

    /// Tells where it is, and sends nothing.
    package func look() async throws {
        if let position = try await desk.delivery(name) { note(.position(position)) }
    }

    /// - Throws: `StoreError`
    package func round() async throws -> Rest {
        guard let position = try await desk.delivery(name) else {
            try await desk.beginDelivery(name)
            note(.begunAnew)
            return .idle
        }
        note(.position(position))
        guard position.stoppedAt == nil else { return .idle }
        // No more than go out at a time: changes at which the receiver hangs hold up the new ones for one time-out at most.
        let stuck = position.waiting == 0 ? [] : try await desk.stuckChanges(of: name, upTo: Self.width, at: clock.now)
        guard !stuck.isEmpty || position.cursor != position.newest else { return .idle }
        isHeard = nil
        let rest = try await send(stuck, from: position)
        if case .pause(_, _, isThere: false) = rest { misses += 1 } else if let isHeard { misses = isHeard ? 0 : misses + 1 }
        // More of the stuck ones may be due. While nobody looks at them, they have time.
        return rest == .idle && stuck.count == Self.width && isHeard ?? true ? .none : rest
    }

    private func send(_ stuck: [StuckChange], from position: DeliveryPosition) async throws -> Rest {
        let receiver: Receiver
        do {
            receiver = try await self.receiver()
        } catch {
            return pause("\(error)")
        }
        let again = try await send(stuck.map(\.change), to: receiver)
        var delivered: [Int64] = []
        var failed: [FailedChange] = []
        // A stop ends the requests. What it cut off stays as it was.
        let isStopping = Task.isCancelled
        for (stuck, answer) in zip(stuck, again) {
            guard let answer, answer != .taken else {
                delivered.append(stuck.change.id)
                continue
            }
            if isStopping, !answer.isJudgement, !answer.asksForTime { continue }
            // It is there if it has judged any change since the last try of this one.
            let isThere = isHeard == true || heardAt.map { $0 > stuck.failedAt } ?? false
            if let next = failure(of: stuck.change, after: stuck.failures, answer, isThere: isThere) { failed.append(next) }
        }
        try await desk.settle(name, delivered: delivered, failed: failed, at: clock.now)
        let dead = failed.count { $0.dueAt == nil }
        if dead > 0 { note(.sent(.dead, dead)) }
        if again.contains(.gone) { return try await stop() }
        return position.waiting < Self.mostStuck ? try await goOn(from: position.cursor, receiver) : .idle
    }

    private func goOn(from cursor: Int64, _ receiver: Receiver) async throws -> Rest {
        let page = try await desk.changes(after: cursor, of: nil, upTo: Self.page)
        if page.isGone(after: cursor) {
            let next = cursor > page.newest.id ? page.newest.id : page.oldest - 1
            try await desk.advance(name, from: cursor, to: next, failed: [], at: clock.now)
            note(.skipped(from: cursor, to: next))
            return .none
        }
        guard let last = page.changes.last else { return .idle }
        let answers = try await send(page.changes, to: receiver)
        if answers.contains(.gone) { return try await stop() }
        // If it took none, it is at fault, and no change.
        let isThere = answers.contains(.taken)
        if !isThere {
            if let pause = pause(after: answers) { return pause }
            let reasons = answers.compactMap { $0?.reason }
            refusals += reasons.count
            // One change that is refused holds up no other. While all are refused, none is given up.
            if let reason = reasons.first, refusals >= Self.mostRefused { return pause(reason) }
        }
        // All that came after its last judgement has found it away, and is sent again. A stop cuts off others, which are at no fault.
        let judged = Task.isCancelled ? nil : answers.lastIndex { $0?.isJudgement ?? false }
        let end = answers.indices.first { $0 > judged ?? -1 && answers[$0]?.isJudgement == false } ?? answers.count
        let next = end < page.changes.count ? page.changes[end].id - 1 : last.id
        let failed = zip(page.changes, answers).prefix(end).compactMap { change, answer in
            answer.flatMap { failure(of: change, after: 0, $0, isThere: true) }
        }
        try await desk.advance(name, from: cursor, to: next, failed: failed, at: clock.now)
        return pause(after: answers, from: end, isThere: isThere) ?? Rest.none
    }

    private func stop() async throws -> Rest {
        try await desk.stop(name, since: clock.now)
        note(.stopped)
        return .idle
    }

    /// The pause for a receiver that has asked for time, or has judged none of the changes from an index on. Nil if it needs none.
    private func pause(after answers: [Receiver.Answer?], from start: Int = 0, isThere: Bool = false) -> Rest? {
        var longest: (time: Duration, reason: String)?
        for case .busy(let time?, let reason) in answers where time >= longest?.time ?? .zero { longest = (time, reason) }
        if let longest { return pause(longest.reason, longest.time, isThere: isThere) }
        return answers[start...].lazy.compactMap { $0 }.first { !$0.isJudgement }?.reason.map { pause($0, isThere: isThere) }
    }

    private func pause(_ reason: String, _ time: Duration = .zero, isThere: Bool = false) -> Rest {
        .pause(max(time, isThere ? Self.waits[0] : backOff), reason, isThere: isThere)
    }

    /// How long a receiver is left alone that is away or at fault.
    private var backOff: Duration { min(Self.waits[0] * (1 << min(misses, 10)), Self.waits[1]) }

    /// - Parameter isThere: whether the receiver is surely there, so that a silence counts against the change.
    /// - Returns: nil for a change that is not sent again.
    private func failure(of change: PublishedChange, after failures: Int, _ answer: Receiver.Answer, isThere: Bool) -> FailedChange? {
        guard let reason = answer.reason else { return nil }
        let last = Self.waits.count - 1
        let scheduled = Self.waits[min(failures, last)]
        let (wait, count): (Duration?, Int) =
            switch answer {
            // The receiver has not looked at it: it wants time.
            case .busy(let time?, _): (max(time, Self.waits[0]), failures)
            // A change does not die of silence, because a receiver may be away for longer than the schedule lasts.
            case .silent, .busy(nil, _): isThere ? (scheduled, min(failures + 1, last)) : (backOff, failures)
            case .refused, .taken, .gone: (failures > last ? nil : scheduled, failures + 1)
            }
        return FailedChange(id: change.id, failures: count, dueAt: wait.map { clock.now.advanced(by: $0) }, reason: reason)
    }

    private func isWanted(_ change: PublishedChange) -> Bool {
        !change.isOfNobody && apps?.contains(change.app) ?? true && types.contains(WebhookType(change))
    }

    /// Sends no more once the receiver asks for time.
    ///
    /// - Returns: an answer for each change up to the last that was sent, in their order. Nil for one that the receiver does not want.
    private func send(_ changes: [PublishedChange], to receiver: Receiver) async throws -> [Receiver.Answer?] {
        var answers = [Receiver.Answer?](repeating: nil, count: changes.count)
        try await withThrowingTaskGroup(of: (Int, Receiver.Answer).self) { group in
            var sent = 0
            for index in changes.indices where isWanted(changes[index]) {
                if sent >= Self.width, let (place, answer) = try await group.next() {
                    answers[place] = answer
                    if answer.asksForTime {
                        answers.removeSubrange(index...)
                        break
                    }
                }
                group.addTask { (index, try await self.send(changes[index], to: receiver)) }
                sent += 1
            }
            for try await (place, answer) in group { answers[place] = answer }
        }
        noteAnswers(answers.compactMap(\.self))
        return answers
    }

    private func noteAnswers(_ answers: [Receiver.Answer]) {
        guard !answers.isEmpty else { return }
        isHeard = isHeard ?? false
        if answers.contains(where: \.isJudgement) { (isHeard, heardAt) = (true, clock.now) }
        let taken = answers.count { $0 == .taken }
        if taken > 0 {
            refusals = 0
            note(.sent(.taken, taken))
        }
        for answer in answers {
            switch answer {
            case .taken, .gone: break
            case .refused: note(.sent(.refused, 1))
            case .silent where Task.isCancelled: break
            case .silent, .busy: note(.sent(.silent, 1))
            }
        }
    }

    private nonisolated func send(_ change: PublishedChange, to receiver: Receiver) async throws -> Receiver.Answer {
        let user = try await desk.userState(of: change.userID, in: change.app)
        return await receiver.send(WebhookMessage(change, of: user, withAddress: withAddress), at: clock.now)
    }
}
