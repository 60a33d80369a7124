// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

/// How Apple has answered one client and key of late: when last with a 200, and when normally.
///
/// What proves that it accepts this client with this key is a 200 about a token that it had accepted before: it answers for codes and for
/// new tokens as it always does, while it rejects all that were issued to another team, or before some mistake.
///
/// An incident at Apple is over some time, and until then nothing tells its answers from true ones but their number. So an answer is
/// *normal* if every stretch of consecutive answers that contains it is: 50 of them in a quarter of an hour and in the settle time, with
/// no more than two rejections. A small app never has so many; there only a repetition counts. The figures are fixed: with other figures
/// for the breaker an operator says how much is too much, and not how little is normal.
struct AnswerRecord: Sendable {
    private static let length = 50
    private static let mostRejections = 2
    private static let longest = Duration.seconds(900)
    /// Answers that were under way together come in any order within this time. What is older comes from a clock that was set back.
    private static let disorder = Duration.seconds(60)

    /// The newest 200.
    var acceptedAt: Timestamp?
    /// The newest 200 about a token that Apple had accepted before.
    var provedAt: Timestamp?
    /// The newest stretch, oldest first.
    private var stretch: [(at: Timestamp, isRejection: Bool)] = []
    private var rejections = 0
    /// Since when every stretch was normal; nil while the newest is not.
    private var normalSince: Timestamp?

    func isProven(at now: Timestamp, within interval: Duration) -> Bool { Self.is(provedAt, within: interval, of: now) }

    func isAccepted(at now: Timestamp, within interval: Duration) -> Bool { Self.is(acceptedAt, within: interval, of: now) }

    private static func `is`(_ time: Timestamp?, within interval: Duration, of now: Timestamp) -> Bool {
        time.map { $0 <= now && now <= $0.advanced(by: interval) } ?? false
    }

    /// The answers of this time were normal. The two at its ends are left out: others, that were not, may have come in the same moment.
    var normal: ClosedRange<Timestamp>? {
        guard let start = normalSince?.advanced(by: .milliseconds(1)), let end = stretch.first?.at.advanced(by: .milliseconds(-1))
        else { return nil }
        return start <= end ? start...end : nil
    }

    mutating func append(isRejection: Bool, at time: Timestamp, settle: Duration) {
        if let last = stretch.last, time.advanced(by: Self.disorder) < last.at {
            stretch = []
            rejections = 0
        }
        let time = max(time, stretch.last?.at ?? time)
        stretch.append((time, isRejection))
        if isRejection { rejections += 1 }
        if stretch.count > Self.length, stretch.removeFirst().isRejection { rejections -= 1 }
        let isNormal =
            stretch.count == Self.length && rejections <= Self.mostRejections
            && stretch[0].at.duration(to: time) <= min(Self.longest, settle)
        normalSince = isNormal ? normalSince ?? time : nil
    }
}
