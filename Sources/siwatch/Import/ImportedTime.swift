// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import CredentialCore

/// The time of a sign-in in a file, in one of the units that exports use.
struct ImportedTime: Equatable {
    enum Unit: String, CaseIterable {
        case seconds, milliseconds
        /// ISO 8601, as databases write it too: with a space for the T, and without a zone for UTC.
        case text = "ISO 8601"
    }

    var time: Timestamp
    var unit: Unit

    /// Nil for text that is no time between 2019 and 2100. The ranges of seconds and milliseconds do not overlap.
    ///
    /// A time in whole seconds counts as the last millisecond of its second, as for `iat`: docs/schema.md says why.
    init?(_ text: [UInt8]) {
        if !text.isEmpty, text.count <= 18, text.allSatisfy(\.isDigit) {
            let number = text.reduce(Int64(0)) { $0 * 10 + Int64($1 - UInt8(ascii: "0")) }
            let (seconds, milliseconds) = (Timestamp(seconds: number), Timestamp(milliseconds: number))
            if Timestamp.legal.contains(milliseconds) {
                self.init(time: milliseconds, unit: .milliseconds)
            } else if Timestamp.legal.contains(seconds) {
                self.init(time: Timestamp(milliseconds: seconds.milliseconds + 999), unit: .seconds)
            } else {
                return nil
            }
        } else {
            guard let time = Self.parse(text), Timestamp.legal.contains(time) else { return nil }
            self.init(time: time, unit: .text)
        }
    }

    private init(time: Timestamp, unit: Unit) {
        self.time = min(time, Timestamp.legal.upperBound)
        self.unit = unit
    }

    /// `2024-02-29T13:05:09.123Z`, `2024-02-29 13:05:09+02:00` and the like. Written by hand, because Foundation takes only some of these
    /// forms, and a file has millions of them.
    private static func parse(_ text: [UInt8]) -> Timestamp? {
        var rest = text[...]
        func skip(_ characters: String) -> UInt8? {
            guard let byte = rest.first, characters.utf8.contains(byte) else { return nil }
            rest.removeFirst()
            return byte
        }
        func number(_ digits: Int) -> Int64? {
            guard rest.count >= digits, rest.prefix(digits).allSatisfy(\.isDigit) else { return nil }
            defer { rest.removeFirst(digits) }
            return rest.prefix(digits).reduce(0) { $0 * 10 + Int64($1 - UInt8(ascii: "0")) }
        }
        guard let year = number(4), skip("-") != nil, let month = number(2), skip("-") != nil, let day = number(2), skip("Tt ") != nil,
            let hour = number(2), skip(":") != nil, let minute = number(2),
            (1...12).contains(month), (1...31).contains(day), hour < 24, minute < 60
        else { return nil }
        var second: Int64 = 0
        if skip(":") != nil {
            guard let seconds = number(2), seconds <= 60 else { return nil }
            second = seconds
        }
        var milliseconds: Int64 = 999
        if skip(".,") != nil {
            let digits = rest.prefix(while: \.isDigit)
            guard !digits.isEmpty else { return nil }
            rest = rest.dropFirst(digits.count)
            milliseconds = (digits.prefix(3) + [UInt8](repeating: UInt8(ascii: "0"), count: max(3 - digits.count, 0)))
                .reduce(0) { $0 * 10 + Int64($1 - UInt8(ascii: "0")) }
        }
        _ = skip(" ")
        var offset: Int64 = 0
        if let sign = skip("+-") {
            guard let hours = number(2) else { return nil }
            _ = skip(":")
            offset = (hours * 60 + (number(2) ?? 0)) * (sign == UInt8(ascii: "-") ? -60 : 60)
        } else {
            _ = skip("Zz")
        }
        guard rest.isEmpty, let date = days(year, month, day) else { return nil }
        let seconds = ((date * 24 + hour) * 60 + minute) * 60 + second - offset
        return Timestamp(milliseconds: seconds * 1000 + milliseconds)
    }

    /// Days since 1970 in the Gregorian calendar (https://howardhinnant.github.io/date_algorithms.html). Nil for 30 February.
    private static func days(_ year: Int64, _ month: Int64, _ day: Int64) -> Int64? {
        let isLeap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0)
        let length: Int64 = month == 2 ? (isLeap ? 29 : 28) : [4, 6, 9, 11].contains(month) ? 30 : 31
        guard day <= length else { return nil }
        // The year begins in March, so that the leap day is its last.
        let shifted = month <= 2 ? year - 1 : year
        let (era, yearOfEra) = (shifted / 400, shifted % 400)
        let dayOfYear = (153 * (month + (month > 2 ? -3 : 9)) + 2) / 5 + day - 1
        return era * 146_097 + yearOfEra * 365 + yearOfEra / 4 - yearOfEra / 100 + dayOfYear - 719_468
    }
}
