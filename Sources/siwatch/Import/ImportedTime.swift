// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import CredentialCore
import Foundation

/// The time of a sign-in in a file, in one of the units that exports use.
struct ImportedTime: Equatable {
    enum Unit: String, CaseIterable {
        case seconds, milliseconds
        /// Since 30 December 1899, as spreadsheets keep times.
        case days = "Excel's days"
        /// ISO 8601, as databases write it too: with a space for the T, and without a zone for UTC.
        case text = "ISO 8601"
    }

    /// What other text is not, as the end of a sentence. Which of 03/04/2026 is the month, nobody knows.
    static let rule = """
        is no time from 2019 on that can be read in one way: write 2026-04-03T12:34:56Z, or seconds or milliseconds since 1970, and not \
        03/04/2026 or 1.7E+12
        """

    var time: Timestamp
    var unit: Unit

    /// Nil for text that is no time between 2019 and 2100. The ranges of seconds and milliseconds do not overlap.
    ///
    /// A time in whole seconds counts as the last millisecond of its second, as for `iat`: docs/schema.md says why.
    init?(_ text: [UInt8]) {
        let parts = text.split(separator: UInt8(ascii: "."), maxSplits: 1, omittingEmptySubsequences: false)
        if parts.allSatisfy({ !$0.isEmpty && $0.count <= 18 && $0.allSatisfy(\.isDigit) }) {
            let number = parts[0].reduce(Int64(0)) { $0 * 10 + Int64($1 - UInt8(ascii: "0")) }
            let fraction = Self.thousandths(parts.count > 1 ? parts[1] : [])
            let (seconds, milliseconds) = (Timestamp(seconds: number), Timestamp(milliseconds: number))
            if Timestamp.legal.contains(milliseconds) {
                self.init(time: milliseconds, unit: .milliseconds)
            } else if Timestamp.legal.contains(seconds) {
                self.init(time: Timestamp(milliseconds: seconds.milliseconds + (fraction > 0 ? fraction : 999)), unit: .seconds)
            } else if parts.count > 1, number < 100_000, let days = Double(String(decoding: text, as: UTF8.self)) {
                // Their fraction is seldom a whole second exactly.
                let time = Timestamp(milliseconds: Int64(((days - 25_569) * 86_400).rounded()) * 1000 + 999)
                guard Timestamp.legal.contains(time) else { return nil }
                self.init(time: time, unit: .days)
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

    /// The first three digits of a fraction.
    private static func thousandths(_ digits: ArraySlice<UInt8>) -> Int64 {
        (digits.prefix(3) + [UInt8](repeating: UInt8(ascii: "0"), count: max(3 - digits.count, 0)))
            .reduce(0) { $0 * 10 + Int64($1 - UInt8(ascii: "0")) }
    }

    /// `2024-02-29T13:05:09.123Z`, `2024-02-29 13:05:09+02:00`, `Thu, 29 Feb 2024 13:05:09 UTC +00:00` and the like. Written by hand,
    /// because Foundation takes only some of these forms, and a file has millions of them.
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
        func word(among words: [String]) -> Int64? {
            guard let index = words.firstIndex(where: { rest.starts(with: $0.utf8) }) else { return nil }
            rest.removeFirst(words[index].utf8.count)
            return Int64(index) + 1
        }
        let date: (year: Int64, month: Int64, day: Int64)
        _ = word(among: ["Mon, ", "Tue, ", "Wed, ", "Thu, ", "Fri, ", "Sat, ", "Sun, "])
        if let year = number(4) {
            guard let line = skip("-/"), let month = number(2), skip("-/") == line, let day = number(2) else { return nil }
            date = (year, month, day)
        } else {
            guard let day = number(2) ?? number(1), skip(" ") != nil, let month = word(among: months), let year = number(4)
            else { return nil }
            date = (year, month, day)
        }
        guard skip("Tt ") != nil, let hour = number(2), skip(":") != nil, let minute = number(2),
            (1...12).contains(date.month), (1...31).contains(date.day), hour < 24, minute < 60
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
            milliseconds = thousandths(digits)
        }
        _ = skip(" ")
        // Rails writes an offset after it.
        let isUniversal = word(among: ["UTC ", "UTC", "GMT"]) != nil
        var offset: Int64 = 0
        if let sign = skip("+-") {
            guard let hours = number(2) else { return nil }
            _ = skip(":")
            offset = (hours * 60 + (number(2) ?? 0)) * (sign == UInt8(ascii: "-") ? -60 : 60)
        } else if !isUniversal {
            _ = skip("Zz")
        }
        guard rest.isEmpty, let midnight = start(ofYear: date.year, date.month, date.day) else { return nil }
        let seconds = midnight + (hour * 60 + minute) * 60 + second - offset
        return Timestamp(milliseconds: seconds * 1000 + milliseconds)
    }

    private static let months = ["Jan ", "Feb ", "Mar ", "Apr ", "May ", "Jun ", "Jul ", "Aug ", "Sep ", "Oct ", "Nov ", "Dec "]

    /// When the day begins in UTC, in seconds since 1970. Nil for 30 February.
    private static func start(ofYear year: Int64, _ month: Int64, _ day: Int64) -> Int64? {
        var date = tm()
        (date.tm_year, date.tm_mon, date.tm_mday) = (Int32(year) - 1900, Int32(month) - 1, Int32(day))
        let seconds = timegm(&date)
        // It takes 30 February for 1 or 2 March.
        return Int64(date.tm_mday) == day ? Int64(seconds) : nil
    }
}
