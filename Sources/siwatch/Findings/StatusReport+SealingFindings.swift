// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import CredentialCore

extension StatusReport {
    var ofSealing: [Finding] {
        tables.sealed.keys.sorted { $0.key < $1.key }.flatMap { findings(ofKey: $0.key, $0.value) }
    }

    @FindingList private func findings(ofKey keyID: String, _ sealed: SealedCounts.OfKey) -> [Finding] {
        let current = daemon?.sealingKeyID ?? keyID
        if current != keyID, sealed.blobs > 0 {
            let values = sealed.blobs.counted("value stands", "values stand")
            Finding(.note, "\(values) under the sealing key \(keyID) until the housekeeping has sealed all anew under \(current)")
        }
        if current == keyID, sealed.seals >= SealedCounts.mostSeals {
            let sentence = "the sealing key \(keyID) has sealed \(sealed.seals.grouped) values, of 4,294,967,296 that are safe"
            Finding(.degraded, sentence, remedy: "siwatch secret rotate", runbook: .finding)
        }
    }
}
