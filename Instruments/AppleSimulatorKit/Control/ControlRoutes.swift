// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import Crypto
import Foundation
import Hummingbird
import NIOCore

/// The simulator's own routes, for other processes: a demo, an end-to-end test, a person with curl.
///
/// Bodies and answers are JSON. Times are milliseconds since 1970 by Apple's clock. A body may be absent if all its members are optional.
/// An operation is about *people*: `"user_ids": [...]`, or `"any": n` for the first n that the operation can apply to. An operation that
/// emits may carry the members of an *emission*: `event_time`, `issued_at`, `deliver` (false: Apple lost it), `events_as_object`,
/// `event_time_in_seconds`, `is_private_email` (`string`, `bool`, `absent`), `deletion_spelling` (`account-delete`, `account-deleted`),
/// `audience` (`latest`, `primary`, or a client), `signature` (`genuine`, `forged`, `unknown_key`).
///
/// | Route | Body | Answer |
/// |---|---|---|
/// | `POST /simulator/users` | `count`, `address` (`relay`, `own`, `none`), `client_id`, `credential` (`refresh_token`, `authorization_code`, `none`), `redirect_uri`, `nonce`, `granted_at` | `sign_ins` |
/// | `GET /simulator/users` | | `users`: the truth about everybody |
/// | `GET /simulator/users/{id}` | | the truth about one |
/// | `POST /simulator/sign-ins` | people, `client_id`, `credential`, `redirect_uri`, `nonce`, `granted_at` | `sign_ins` |
/// | `POST /simulator/consent-revocations` | people, `client_id`, emission | `notifications` |
/// | `POST /simulator/account-deletions` | people, emission | `notifications` |
/// | `POST /simulator/mail-forwarding` | people, `enabled`, `client_id`, emission | `notifications` |
/// | `POST /simulator/password-changes` | people | |
/// | `POST /simulator/notifications` | people, `type`, `client_id`, emission: says it, changes nothing | `notifications` |
/// | `GET /simulator/notifications` | | `notifications`: the latest 10,000 |
/// | `POST /simulator/notifications/{jti}/redelivery` | | `notifications`: the same again, byte by byte |
/// | `POST /simulator/keys/rotation` | `keep_former` | `key_ids` |
/// | `POST /simulator/client-keys` | `client_id`, `key_id`, `public_key` (PEM) | |
/// | `DELETE /simulator/client-keys/{key_id}` | | |
/// | `GET`, `PUT /simulator/clock` | `offset_ms` | `now`, `offset_ms` |
/// | `POST /simulator/preparations` | | `prepared`: answers to refreshes signed ahead, good for `--answer-reuse` seconds |
/// | `POST /simulator/faults` | `endpoint` (`token`, `keys`, `revoke`), `grant_type`, `user_ids`, `user_share`, `client_id`, `count`, `delay_ms`, `loses` (`request`, `answer`), `status`, `headers`, `body`, `padding`, `connection` (`reset`, `hang`, `cut`), `id_token` (a case of ``IDTokenStyle``) | `id` |
/// | `GET /simulator/faults` | | `faults` |
/// | `DELETE /simulator/faults`, `DELETE /simulator/faults/{id}` | | |
/// | `GET`, `DELETE /simulator/counters` | | ``Counters``, and `shortest_refresh_gap_ms` |
///
/// Statuses: 200; 400 for a malformed body; 404 for an unknown object; 409 for an impossible operation. Every answer except a 200 is
/// `{"error": "<a sentence>"}`.
struct ControlRoutes: Sendable {
    let simulator: AppleSimulator

    func add(to router: Router<SimulatorContext>) {
        let group = router.group("simulator")
        addPeople(to: group)
        addNotifications(to: group)
        addLevers(to: group)
        addFaults(to: group)
    }

    private func addPeople(to group: RouterGroup<SimulatorContext>) {
        group.post("users") { request, _ in
            try await answer(request) { (message: CreateUsersMessage) in
                SignInsMessage(signIns: try simulator.createUsers(message.count, address: message.address, message.options))
            }
        }
        group.get("users") { _, _ in
            try await answer { UsersMessage(users: simulator.truth) }
        }
        group.get("users/:id") { _, context in
            try await answer { try simulator.truth(of: context.parameters.require("id")) }
        }
        group.post("sign-ins") { request, _ in
            try await answer(request) { (message: SignInMessage) in
                SignInsMessage(signIns: try simulator.signIn(message.people, message.options))
            }
        }
        group.post("password-changes") { request, _ in
            try await answer(request) { (message: PasswordChangeMessage) in
                try simulator.changePasswords(of: message.people)
                return DoneMessage()
            }
        }
    }

    private func addNotifications(to group: RouterGroup<SimulatorContext>) {
        let style = simulator.configuration.style
        group.post("consent-revocations") { request, _ in
            try await answer(request) { (message: EndingMessage) in
                let emission = message.emission.emission(style)
                return NotificationsMessage(
                    notifications: try await simulator.revokeConsent(of: message.people, clientID: message.clientID, emission)
                )
            }
        }
        group.post("account-deletions") { request, _ in
            try await answer(request) { (message: EndingMessage) in
                let emission = message.emission.emission(style)
                return NotificationsMessage(notifications: try await simulator.deleteAccounts(of: message.people, emission))
            }
        }
        group.post("mail-forwarding") { request, _ in
            try await answer(request) { (message: ForwardingMessage) in
                let emission = message.emission.emission(style)
                return NotificationsMessage(
                    notifications: try await simulator.setForwarding(
                        of: message.people,
                        message.isEnabled,
                        clientID: message.clientID,
                        emission
                    )
                )
            }
        }
        group.post("notifications") { request, _ in
            try await answer(request) { (message: ClaimMessage) in
                let emission = message.emission.emission(style)
                return NotificationsMessage(
                    notifications: try await simulator.emit(message.type, about: message.people, clientID: message.clientID, emission)
                )
            }
        }
        group.get("notifications") { _, _ in
            try await answer { NotificationsMessage(notifications: simulator.notifications) }
        }
        group.post("notifications/:jti/redelivery") { _, context in
            try await answer { NotificationsMessage(notifications: [try simulator.redeliver(context.parameters.require("jti"))]) }
        }
    }

    private func addLevers(to group: RouterGroup<SimulatorContext>) {
        group.post("keys/rotation") { request, _ in
            try await answer(request) { (message: RotationMessage) in
                KeyIDsMessage(keyIDs: try simulator.rotateKeys(keepingFormer: message.keepsFormer))
            }
        }
        group.post("client-keys") { request, _ in
            try await answer(request) { (message: ClientKeyMessage) in
                guard let publicKey = try? P256.Signing.PublicKey(pemRepresentation: message.publicKey) else {
                    throw ControlError.malformed("public_key is not the PEM of a P-256 public key.")
                }
                try simulator.register(RegisteredKey(id: message.keyID, publicKey: publicKey), for: message.clientID)
                return DoneMessage()
            }
        }
        group.delete("client-keys/:id") { _, context in
            try await answer {
                try simulator.revokeKey(context.parameters.require("id"))
                return DoneMessage()
            }
        }
        group.get("clock") { _, _ in
            try await answer { TimeMessage(now: simulator.now, offset: simulator.clockOffset.wholeMilliseconds) }
        }
        group.put("clock") { request, _ in
            try await answer(request) { (message: ClockMessage) in
                simulator.clockOffset = .milliseconds(message.offset)
                return TimeMessage(now: simulator.now, offset: message.offset)
            }
        }
        group.post("preparations") { _, _ in
            try await answer { PreparationMessage(prepared: try await simulator.prepareAnswers()) }
        }
        group.get("counters") { _, _ in
            try await answer {
                CountersMessage(simulator.counters, shortestRefreshGap: simulator.shortestRefreshGap)
            }
        }
        group.delete("counters") { _, _ in
            try await answer {
                simulator.resetCounters()
                return DoneMessage()
            }
        }
    }

    private func addFaults(to group: RouterGroup<SimulatorContext>) {
        group.post("faults") { request, _ in
            try await answer(request) { (fault: Fault) in FaultIDMessage(id: simulator.script(fault)) }
        }
        group.get("faults") { _, _ in
            try await answer { FaultsMessage(faults: simulator.faults) }
        }
        group.delete("faults") { _, _ in
            try await answer {
                simulator.clearFaults()
                return DoneMessage()
            }
        }
        group.delete("faults/:id") { _, context in
            try await answer {
                try simulator.clearFault(context.parameters.require("id", as: Int.self))
                return DoneMessage()
            }
        }
    }
}
