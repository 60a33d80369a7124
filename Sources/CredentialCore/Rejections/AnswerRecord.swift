// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

/// How Apple has lately answered one client and key: when last with a 200, and since when normally.
///
/// Only a 200 about a token that Apple had accepted before proves that Apple accepts the client with this key. Apple goes on to answer
/// codes and new tokens with 200 while it rejects all tokens that were issued to another team, or before some mistake.
///
/// During an incident at Apple, only the number of rejections shows that they are false. So an answer is *normal* if every
/// stretch of consecutive answers that contains it is normal: 50 answers within a quarter of an hour and within the settle time, with at
/// most two rejections. A small app never has so many answers, so there only a repetition counts. The figures are fixed, because an
/// operator's figures for the breaker say how much is too much, not how little is normal.
struct AnswerRecord: Sendable {
    private static let length = 50
    private static let mostRejections = 2
    private static let longest = Duration.seconds(900)
    /// Answers to requests that were under way together may come in any order within this time. What is later than now by more came from a
    /// clock that has been set back since.
    private static let disorder = Duration.seconds(60)

    var acceptedAt: Timestamp?
    /// The newest 200 about a token that Apple had accepted before.
    var provedAt: Timestamp?
    /// The answers of the newest stretch, oldest first.
    private var stretch: [(at: Timestamp, isRejection: Bool)] = []
    private var rejections = 0
    /// Since when every stretch was normal; nil while the newest is not.
    private var normalSince: Timestamp?

    func isProven(at now: Timestamp, within interval: Duration) -> Bool { Self.is(provedAt, within: interval, of: now) }

    func isAccepted(at now: Timestamp, within interval: Duration) -> Bool { Self.is(acceptedAt, within: interval, of: now) }

    private static func `is`(_ time: Timestamp?, within interval: Duration, of now: Timestamp) -> Bool {
        time.map { $0 <= now && now <= $0.advanced(by: interval) } ?? false
    }

    /// Whether an answer came from a clock that has been set back since.
    func isLater(than now: Timestamp) -> Bool {
        max(acceptedAt ?? .earliest, stretch.last?.at ?? .earliest) > now.advanced(by: Self.disorder)
    }

    /// The time in which all answers were normal, without its ends, because other answers at those moments may not have been normal.
    var normal: ClosedRange<Timestamp>? {
        guard let start = normalSince?.advanced(by: .milliseconds(1)), let end = stretch.first?.at.advanced(by: .milliseconds(-1))
        else { return nil }
        return start <= end ? start...end : nil
    }

    mutating func append(isRejection: Bool, at time: Timestamp, settle: Duration) {
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
