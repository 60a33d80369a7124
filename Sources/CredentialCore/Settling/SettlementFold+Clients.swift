// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

/// What Apple's answers in any lane say of a client.
extension SettlementFold {
    mutating func hear(_ answer: ClientAnswer?, of clientID: String) {
        guard let answer else { return }
        if case .accepted(let time) = answer { changes.validAt[clientID] = latest(changes.validAt[clientID], time) }
        let known = basis.clients[clientID] ?? ClientRecord()
        var record = known
        record.hear(answer, at: now)
        basis.clients[clientID] = record
        if record.refusal != known.refusal { changes.refusals.updateValue(record.refusal, forKey: clientID) }
    }
}
