//! A delivery as a shell command that sends the same bytes from any computer, signed with the
//! secret that the endpoint's owner inserts.

use porchlight_ports::DeliveryRow;

/// Builds the command. It does not contain the secret.
pub(super) fn command(row: &DeliveryRow, url: &str, body: &str) -> String {
    let queued = &row.queued;
    let headers = [
        ("X-Service-Event", queued.event.as_str().to_owned()),
        ("X-Service-Delivery", queued.session_id.to_string()),
        ("X-Service-Delivery-Id", queued.id.to_string()),
        ("X-Service-Attempt", queued.attempts.max(1).to_string()),
        ("X-Service-Sequence", queued.number.to_string()),
    ];
    let mut command = format!("BODY={}\n", quoted(body));
    command.push_str(
        "SIGNATURE=$(printf %s \"$BODY\" | openssl dgst -sha256 -hmac \"$WEBHOOK_SECRET\" -r | cut -d' ' -f1)\n",
    );
    command.push_str(&format!(
        "curl -sS -i -X POST {} \\\n  -H 'Content-Type: application/json' \\\n",
        quoted(url)
    ));
    for (name, value) in headers {
        command.push_str(&format!(
            "  -H {} \\\n",
            quoted(&format!("{name}: {value}"))
        ));
    }
    command
        .push_str("  -H \"X-Service-Signature: sha256=$SIGNATURE\" \\\n  --data-binary \"$BODY\"");
    command
}

/// Quotes a text as one word of a POSIX shell, without any special characters in effect.
fn quoted(text: &str) -> String {
    format!("'{}'", text.replace('\'', r"'\''"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Command;

    #[test]
    fn a_shell_reads_the_quoted_text_back() {
        for text in ["", "it's", "$(id) `id` \\ \"x\"\n!", "'; rm -rf x; '"] {
            let script = format!("printf %s {}", quoted(text));
            let output = Command::new("sh").args(["-c", &script]).output().unwrap();
            assert_eq!(String::from_utf8(output.stdout).unwrap(), text);
        }
    }
}
