// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import ArgumentParser
import CredentialCore
import Foundation

extension Int {
    /// The number with its noun, as `1 code` or `2 codes`.
    func counted(_ noun: String) -> String { counted(noun, "\(noun)s") }

    /// The same for words with another plural, as `1 code ends` or `2 codes end`.
    func counted(_ one: String, _ many: String) -> String { "\(self) \(self == 1 ? one : many)" }

    /// With a comma between thousands, as `1,234,567`.
    var grouped: String {
        let digits = Array("\(magnitude)")
        let groups = stride(from: digits.count, to: 0, by: -3).reversed().map { String(digits[Swift.max($0 - 3, 0)..<$0]) }
        return (self < 0 ? "-" : "") + groups.joined(separator: ",")
    }
}

extension Timestamp {
    /// As in `2026-11-21T13:12:34.000Z`.
    var text: String {
        // Half a millisecond more, because the format style cuts off digits and a Double is slightly off.
        let date = Date(timeIntervalSince1970: (Double(milliseconds) + 0.5) / 1000)
        return date.formatted(Date.ISO8601FormatStyle(includingFractionalSeconds: true))
    }
}

extension Timestamp: ExpressibleByArgument {
    /// Reads `2026-11-21T13:12:34Z`, with or without a fraction, or milliseconds since 1970, within the years that tables accept.
    public init?(argument: String) {
        if let milliseconds = Int64(argument) {
            self.init(milliseconds: milliseconds)
        } else {
            let styles = [Date.ISO8601FormatStyle(), Date.ISO8601FormatStyle(includingFractionalSeconds: true)]
            guard let date = styles.lazy.compactMap({ try? $0.parse(argument) }).first else { return nil }
            self.init(milliseconds: Int64((date.timeIntervalSince1970 * 1000).rounded()))
        }
        guard Timestamp.legal.contains(self) else { return nil }
    }
}

extension Duration {
    /// For people: the two greatest units, as in `3 h 12 min`.
    var text: String {
        let seconds = max(Int(components.seconds), 0)
        switch seconds {
        case ..<60: return "\(seconds) s"
        case ..<3600: return "\(seconds / 60) min \(seconds % 60) s"
        case ..<86_400: return "\(seconds / 3600) h \(seconds % 3600 / 60) min"
        default: return "\(seconds / 86_400) d \(seconds % 86_400 / 3600) h"
        }
    }
}
