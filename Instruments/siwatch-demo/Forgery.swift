// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import DaemonHarness
import Foundation

/// A notification that must change nobody's state.
enum Forgery: String, CaseIterable {
    case forged
    case misdirected
    case expired
    case garbled

    /// What siwatch's quarantine has to say of it.
    var reason: String {
        switch self {
        case .forged: "bad_signature"
        case .misdirected: "wrong_audience"
        case .expired: "expired"
        case .garbled: "malformed"
        }
    }

    func bodies(about people: [Person], by apple: SimulatedApple) async throws -> [String] {
        switch self {
        case .forged:
            try await claims(about: people, by: apple, ["signature": "forged"])
        case .misdirected:
            try await claims(about: people, by: apple, ["audience": "com.example.other"])
        case .expired:
            try await claims(about: people, by: apple, ["issued_at": .integer(Int64(Date.now.timeIntervalSince1970 - 172_800) * 1000)])
        case .garbled:
            try await claims(about: people, by: apple, [:]).map { String($0.dropLast($0.count / 2)) }
        }
    }

    /// Revocations that never were.
    private func claims(about people: [Person], by apple: SimulatedApple, _ more: [String: JSONValue]) async throws -> [String] {
        try await apple.events("notifications", people, more.merging(["type": "consent-revoked"]) { $1 }).map(\.body)
    }
}
