// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `--control`: changes of a working link over HTTP, by tests and by hand.
use crate::failure::Failure;
use crate::http::{Answer, Handler, Loopback, Request, Server, not_listening, secret};
use alcc_emu::{Control, Dir, Namespace, PathSpec};
use alcc_link::{DirectionSpec, QueueSpec, RateSpec};
use alcc_results::scenario::probability;
use alcc_units::{Rate, Span, positive};
use serde::Deserialize;
use serde_json::{Value, json};
use std::net::TcpListener;
use std::sync::{Arc, Mutex};

/// Maximum number of changes of a link: each leaves a model behind, of which the report is made.
const MAX_CHANGES: u32 = 10_000;

/// Contents of a request; names and values are those of the options.
#[derive(Deserialize, Default)]
#[serde(deny_unknown_fields, default)]
struct Wish {
    rate: Option<String>,
    delay: Option<String>,
    loss: Option<Loss>,
    queue: Option<String>,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum Loss {
    Share(f64),
    Text(String),
}

/// The link as it is now.
struct Link {
    control: Control,
    names: [String; 2],
    now: Mutex<(PathSpec, u32)>,
}

/// Listens at both ends of the link: CMD has a loopback device of its own. Returns where, for CMD.
pub(super) fn serve(
    at: Loopback,
    places: [&Namespace; 2],
    control: Control,
    spec: &PathSpec,
    names: [String; 2],
) -> Result<String, Failure> {
    let link = Arc::new(Link {
        control,
        names,
        now: Mutex::new((spec.clone(), 0)),
    });
    let mut address = at.0;
    let handler: Handler = Arc::new(move |request| link.answer(request));
    let (handler, root) = secret(handler)?;
    for place in places {
        let listener = place
            .run(|| TcpListener::bind(address))
            .map_err(Failure::usage)?;
        let failed = |e| not_listening(address, "--control", &e);
        let listener = listener.map_err(failed)?;
        // With port 0, the second takes the port that the first has got.
        address = listener.local_addr().map_err(failed)?;
        Server::on(listener, "--control", Arc::clone(&handler))?;
    }
    Ok(format!("http://{address}{root}"))
}

impl Link {
    fn answer(&self, request: &Request) -> Answer {
        if !request.is_ours() {
            return Answer::wrong(
                "403 Forbidden",
                "pages from elsewhere may not change the link",
            );
        }
        let dirs: &[Dir] = match request.path.as_str() {
            "/" => &Dir::BOTH,
            "/down" => &[Dir::Down],
            "/up" => &[Dir::Up],
            path => {
                let why = format!("{path}: there are /, /down and /up");
                return Answer::wrong("404 Not Found", why);
            }
        };
        let changed = match request.method.as_str() {
            "GET" => Ok(()),
            "PUT" | "POST" => self.change(dirs, &request.body),
            _ => {
                return Answer::wrong(
                    "405 Method Not Allowed",
                    "GET shows the link, PUT changes it",
                );
            }
        };
        match changed {
            Ok(()) => Answer::json(&self.shown()),
            Err(why) => Answer::wrong("400 Bad Request", why),
        }
    }

    /// All of it, or nothing.
    fn change(&self, dirs: &[Dir], body: &[u8]) -> Result<(), String> {
        let wish = Wish::read(body)?;
        let mut now = alcc_sys::lock(&self.now);
        let (spec, changes) = &mut *now;
        if *changes == MAX_CHANGES {
            return Err(format!(
                "the link has been changed {MAX_CHANGES} times: restart it"
            ));
        }
        let mut new = spec.clone();
        for dir in dirs {
            let direction = of(&mut new, *dir);
            wish.apply(direction)?;
        }
        for dir in dirs {
            self.control.change(*dir, of(&mut new, *dir).clone());
        }
        *spec = new;
        *changes += 1;
        Ok(())
    }

    fn shown(&self) -> Value {
        let now = alcc_sys::lock(&self.now);
        let [down, up] = &self.names;
        json!({"down": shown(&now.0.down, down), "up": shown(&now.0.up, up), "changes": now.1})
    }
}

fn of(spec: &mut PathSpec, dir: Dir) -> &mut DirectionSpec {
    match dir {
        Dir::Down => &mut spec.down,
        Dir::Up => &mut spec.up,
    }
}

fn shown(spec: &DirectionSpec, name: &str) -> Value {
    let rate = match &spec.rate {
        RateSpec::Unlimited => "unlimited".to_owned(),
        RateSpec::Fixed(rate) => rate.to_string(),
        RateSpec::Trace(_) => name.to_owned(),
    };
    json!({
        "rate": rate,
        "delay": spec.delay.to_string(),
        "loss": spec.loss,
        "queue": spec.queue.to_string(),
    })
}

impl Wish {
    fn read(body: &[u8]) -> Result<Self, String> {
        // A list is not a valid request, though it could be read as the fields in their order.
        let object: Result<serde_json::Map<_, _>, _> = serde_json::from_slice(body);
        object
            .and_then(|fields| Self::deserialize(Value::Object(fields)))
            .map_err(|e| {
                format!(
                    "{e}: write a JSON object such as {{\"rate\": \"5mbit\", \"delay\": \"40ms\"}}"
                )
            })
    }

    fn apply(&self, spec: &mut DirectionSpec) -> Result<(), String> {
        match self.rate.as_deref() {
            None => {}
            Some("unlimited") => spec.rate = RateSpec::Unlimited,
            Some(text) => {
                let rate =
                    positive::<Rate>(text).map_err(|e| format!("rate: {e}, or unlimited"))?;
                spec.rate = RateSpec::Fixed(rate);
            }
        }
        if let Some(text) = &self.delay {
            spec.delay = text.parse::<Span>().map_err(|e| format!("delay: {e}"))?;
        }
        match &self.loss {
            None => {}
            Some(Loss::Share(share)) if (0.0..=1.0).contains(share) => spec.loss = *share,
            Some(Loss::Share(share)) => {
                return Err(format!(
                    "loss: {share} is not a probability: write 0 to 1, or \"1%\""
                ));
            }
            Some(Loss::Text(text)) => {
                spec.loss = probability(text).map_err(|e| format!("loss: {e}"))?;
            }
        }
        if let Some(text) = &self.queue {
            spec.queue = text
                .parse::<QueueSpec>()
                .map_err(|e| format!("queue: {e}"))?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn applied(text: &str) -> Result<DirectionSpec, String> {
        let mut spec = DirectionSpec::default();
        Wish::read(text.as_bytes())?.apply(&mut spec).map(|()| spec)
    }

    #[test]
    fn a_wish_says_what_the_options_say() {
        let spec = applied(r#"{"rate": "5mbit", "delay": "40ms", "loss": "1%", "queue": "codel"}"#);
        let spec = spec.unwrap();
        assert!(matches!(spec.rate, RateSpec::Fixed(rate) if rate == Rate::mbps(5)));
        assert_eq!((spec.delay, spec.loss), (Span::from_millis(40), 0.01));
        assert!(spec.queue.to_string().starts_with("codel"));
        for (text, why) in [
            (r#"{"rate": "0mbit"}"#, "above 0"),
            (r#"{"rate": "fast"}"#, "or unlimited"),
            (r#"{"delay": "40"}"#, "such as 20ms"),
            (r#"{"loss": 2}"#, "not a probability"),
            (r#"{"loss": "200%"}"#, "0% to 100%"),
            (r#"{"queue": "nope"}"#, "there are droptail"),
            (r#"{"speed": 1}"#, "unknown field `speed`"),
            ("[]", "JSON object"),
        ] {
            let said = applied(text).map(|_| ()).unwrap_err();
            assert!(said.contains(why), "{text}: {said}");
        }
    }
}
