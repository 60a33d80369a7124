// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import CredentialCore
import HTTPTypes
import Hummingbird

extension HTTPField.Name {
    static let idempotencyKey = Self("Idempotency-Key")!
    static let lastEventID = Self("Last-Event-ID")!
}

extension Request {
    func idempotencyKey() throws(Problem) -> String? {
        guard let key = headers[.idempotencyKey] else { return nil }
        guard TextForm.name.matches(key) else { throw Problem(.badRequest, "the header Idempotency-Key has to be \(TextForm.name.words)") }
        return key
    }
}
