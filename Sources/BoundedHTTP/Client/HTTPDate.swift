// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import CredentialCore

enum HTTPDate {
    /// Reads the three forms that RFC 9110, section 5.6.7, requires: `Sun, 06 Nov 1994 08:49:37 GMT`, `Sunday, 06-Nov-94 08:49:37 GMT`,
    /// `Sun Nov  6 08:49:37 1994`. Nil for any other text.
    static func parse(_ text: String) -> Timestamp? {
        let words = text.utf8.split(whereSeparator: separators.contains).map(Substring.init)
        guard words.count >= 7 else { return nil }
        let isGMT = words.count == 8 && words[7] == "GMT"
        let (day, month, year, time) =
            isGMT ? (words[1], words[2], words[3], words[4...6]) : (words[2], words[1], words[6], words[3...5])
        let clock = time.compactMap { Int64($0) }
        guard isGMT || words.count == 7,
            let day = Int64(day), (1...31).contains(day),
            let month = months.firstIndex(of: String(month)),
            let year = Int64(year), (0...9999).contains(year),
            clock.count == 3, (0...23).contains(clock[0]), (0...59).contains(clock[1]), (0...60).contains(clock[2])
        else { return nil }
        let days = daysSince1970(year: year < 100 ? year + 2000 : year, month: Int64(month + 1), day: day)
        return Timestamp(seconds: days * 86_400 + clock[0] * 3600 + clock[1] * 60 + clock[2])
    }

    private static let separators = Array(" ,-:".utf8)
    private static let months = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"]

    /// Counts the days since 1970 in the Gregorian calendar, in years that begin on 1 March, so that the leap day comes last.
    private static func daysSince1970(year: Int64, month: Int64, day: Int64) -> Int64 {
        let shifted = month > 2 ? year : year - 1
        let leapDays = shifted / 4 - shifted / 100 + shifted / 400
        let dayOfYear = (153 * ((month + 9) % 12) + 2) / 5 + day - 1
        return shifted * 365 + leapDays + dayOfYear - 719_468
    }
}
