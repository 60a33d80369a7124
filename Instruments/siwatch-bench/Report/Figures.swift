// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import CredentialCore
import Foundation

extension Double {
    var perSecond: String { "\(rounded(to: 0)) /s" }
    var percent: String { "\((self * 100).rounded(to: 2)) %" }

    func rounded(to digits: Int) -> String {
        formatted(.number.precision(.fractionLength(digits)).locale(Locale(identifier: "en_US")))
    }
}

extension Duration {
    var inMilliseconds: String { inMilliseconds(to: 1) }

    func inMilliseconds(to digits: Int) -> String { "\((inSeconds * 1000).rounded(to: digits)) ms" }

    /// The time divided by the number of pieces of work.
    func perPiece(_ count: Int) -> String {
        "\((inSeconds * 1e6 / Double(count)).rounded(to: 0)) µs"
    }
}

extension Int {
    /// The bytes divided by the number of pieces of work.
    func perPiece(_ count: Int) -> String {
        "\((Double(self) / 1024 / Double(count)).rounded(to: 1)) KiB"
    }
}

extension Array where Element: Comparable {
    /// The array must not be empty.
    var median: Element { sorted()[count / 2] }
}

extension [Duration] {
    /// The smallest element that `share` of all elements do not exceed. The array must not be empty.
    func percentile(_ share: Double) -> Duration {
        let sorted = sorted()
        return sorted[Swift.min(Swift.max(Int((share * Double(count)).rounded(.up)) - 1, 0), count - 1)]
    }

    /// Some percentiles, side by side.
    func figure(_ shares: Double..., digits: Int = 1) -> String {
        shares.map { percentile($0).inMilliseconds(to: digits) }.joined(separator: " / ")
    }
}
