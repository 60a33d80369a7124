// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

/// The order of requests about codes and tokens, and their callers. Only here does it show whether several processes share the limits.
package struct Traffic: Sendable, Codable, Equatable {
    /// The most exchanges of codes within a second, and the most of all other requests.
    package private(set) var mostCodesInASecond = 0
    package private(set) var mostOthersInASecond = 0
    /// How often another caller took over after the previous one had been silent.
    package private(set) var handovers = 0
    /// Requests of another caller while the previous one was still active.
    package private(set) var strays: [Stray] = []

    package struct Stray: Sendable, Codable, Equatable {
        package let caller: String
        package let at: Moment
    }

    private var codes = LastSecond()
    private var others = LastSecond()
    private var caller: String?
    private var heardAt: Moment?

    package init() {}

    enum CodingKeys: String, CodingKey {
        case mostCodesInASecond = "most_codes_in_a_second"
        case mostOthersInASecond = "most_others_in_a_second"
        case handovers, strays
    }

    /// After this silence another caller may begin.
    private static let silence = Duration.milliseconds(500)

    /// - Parameter caller: the name that the caller puts into its path.
    package mutating func record(isCode: Bool, of caller: String, at now: Moment) {
        if isCode {
            mostCodesInASecond = max(mostCodesInASecond, codes.count(with: now))
        } else {
            mostOthersInASecond = max(mostOthersInASecond, others.count(with: now))
        }
        if let current = self.caller, let heardAt, current != caller {
            guard now - heardAt >= Self.silence else {
                strays.append(Stray(caller: caller, at: now))
                return
            }
            handovers += 1
        }
        self.caller = caller
        heardAt = now
    }
}

private struct LastSecond: Equatable {
    private var moments: [Moment] = []

    mutating func count(with now: Moment) -> Int {
        moments.removeAll { now - $0 >= .seconds(1) }
        moments.append(now)
        return moments.count
    }
}
