// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import CredentialCore

/// Durations as the TOML file writes them.
extension Duration {
    /// Reads whole numbers with the units `d` `h` `m` `s` `ms`, each unit once and greater units first: `24h`, `1h30m`, `20ms`.
    ///
    /// - Returns: nil for anything else, for zero, and beyond 274 years, because there nanoseconds overflow 64 bits and clocks trap.
    init?(configured text: String) {
        var rest = text[...]
        var total = Duration.zero
        for (unit, duration) in Self.units {
            let digits = rest.prefix { $0.isASCII && $0.isNumber }
            let letters = rest[digits.endIndex...].prefix { $0.isLetter }
            guard letters == unit, let count = Int64(digits) else { continue }
            guard count <= Int64(Self.longestConfigurable / duration) else { return nil }
            total += duration * count
            rest = rest[letters.endIndex...]
        }
        guard rest.isEmpty, total > .zero, total <= Self.longestConfigurable else { return nil }
        self = total
    }

    private static let units: [(String, Duration)] = [
        ("d", .days(1)), ("h", .hours(1)), ("m", .minutes(1)), ("s", .seconds(1)), ("ms", .milliseconds(1)),
    ]

    private static let longestConfigurable = Duration.days(100_000)
}
