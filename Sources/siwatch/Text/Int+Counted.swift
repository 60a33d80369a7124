// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

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
