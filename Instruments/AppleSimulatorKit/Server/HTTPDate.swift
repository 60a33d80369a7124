// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

/// The text of a `Date` header: RFC 9110 section 5.6.7. Moments before 1970 become the beginning of 1970.
enum HTTPDate {
    static func text(of moment: Moment) -> String {
        let seconds = Int(max(0, moment.seconds))
        let days = seconds / 86_400
        let second = seconds % 86_400
        let (year, month, day) = date(ofDay: days)
        return """
            \(weekdays[(days + 4) % 7]), \(padded(day)) \(months[month - 1]) \(year) \
            \(padded(second / 3600)):\(padded(second / 60 % 60)):\(padded(second % 60)) GMT
            """
    }

    // 1970-01-01 was a Thursday.
    private static let weekdays = ["Sun", "Mon", "Tue", "Wed", "Thu", "Fri", "Sat"]
    private static let months = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"]

    private static func padded(_ number: Int) -> String {
        number < 10 ? "0\(number)" : "\(number)"
    }

    /// The Gregorian date of a day counted from 1970-01-01, by Howard Hinnant's `civil_from_days`. Its years begin in March, so that the
    /// leap day comes last.
    private static func date(ofDay day: Int) -> (year: Int, month: Int, day: Int) {
        let shifted = day + 719_468
        let era = shifted / 146_097
        let dayOfEra = shifted % 146_097
        let yearOfEra = (dayOfEra - dayOfEra / 1460 + dayOfEra / 36_524 - dayOfEra / 146_096) / 365
        let dayOfYear = dayOfEra - (365 * yearOfEra + yearOfEra / 4 - yearOfEra / 100)
        let marchMonth = (5 * dayOfYear + 2) / 153
        let month = marchMonth < 10 ? marchMonth + 3 : marchMonth - 9
        return (yearOfEra + era * 400 + (month <= 2 ? 1 : 0), month, dayOfYear - (153 * marchMonth + 2) / 5 + 1)
    }
}
