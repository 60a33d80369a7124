// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

/// A user whom Apple has never issued, with an id in the shape of Apple's.
func stranger(_ number: Int) -> String {
    let digits = "\(number)"
    return "000000.\(String(repeating: "0", count: 32 - digits.count))\(digits).0000"
}
