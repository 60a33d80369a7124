// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

extension Int {
    /// The number with its noun, as `1 code` or `2 codes`.
    func counted(_ noun: String) -> String { counted(noun, "\(noun)s") }

    /// The number with commas, as `1,234,567`.
    var grouped: String {
        var digits = Substring(String(self))
        var groups: [Substring] = []
        while digits.count > 3 {
            groups.insert(digits.suffix(3), at: 0)
            digits = digits.dropLast(3)
        }
        return ([digits] + groups).joined(separator: ",")
    }

    /// The same for words with another plural, as `1 code ends` or `2 codes end`.
    func counted(_ one: String, _ many: String) -> String { "\(self) \(self == 1 ? one : many)" }
}
