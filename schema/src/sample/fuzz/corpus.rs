//! The fuzzing corpus: a batch of each kind in each format, and texts that are known to be
//! difficult.

use prost_reflect::prost::Message;
use prost_reflect::{DescriptorPool, DynamicMessage};

use crate::sample::json;

const SAMPLES: [&str; 14] = [
    r#"{"t":0.5,"kind":"location","lat":52.5200066,"lng":13.404954,"accuracyM":4.25,"altitudeM":34.5,"speedMps":1.25,"bearingDeg":270.5,"mock":true,"provider":"fused"}"#,
    r#"{"t":0.6,"kind":"location","lat":-1e-7,"lng":-180,"speedMps":-1,"bearingDeg":-1,"accuracyM":100000}"#,
    r#"{"t":1,"kind":"pressure","hPa":1013.257}"#,
    r#"{"t":172800,"kind":"steps","count":100000000}"#,
    r#"{"t":2,"kind":"imu","hz":50,"ax":[0.1,-0.2],"ay":[0,1],"az":[9.81,9.79]}"#,
    r#"{"t":3,"kind":"imu","hz":2,"ax":[1],"ay":[2],"az":[3],"gx":[0.5],"gy":[-0.5],"gz":[0]}"#,
    r#"{"t":4,"kind":"motion","accelMean":9.81,"accelStd":0.4,"cadenceHz":1.9}"#,
    r#"{"t":4.5,"kind":"motion","accelMean":0,"accelStd":400,"verticalMean":-400,"cadenceHz":10,"yawRad":-100}"#,
    r#"{"t":5,"kind":"magnetic","x":20.5,"y":-3,"z":10000}"#,
    r#"{"t":6,"kind":"activity","type":"walking","confidence":0.9}"#,
    r#"{"t":7,"kind":"mark","name":"pod_captured"}"#,
    r#"{"t":8,"kind":"mark","name":"Übergabe"}"#,
    r#"{"t":9,"kind":"system","name":"location_off"}"#,
    r#"{"t":0,"kind":"system","name":"integrity_failed"}"#,
];

/// Texts for the JSON decoders.
const TEXTS: [&str; 12] = [
    r#"{"seq":17,"samples":[]}"#,
    r#"{"sessionId":"ses_00000000000000000000000000","seq":1000000,"samples":[]}"#,
    r#"{"samples":[{"kind":"radio","apCount":7,"more":{"a":[1,{"b":null}]}}],"seq":3}"#,
    r#"{"seq":1,"seq":2,"samples":[]}"#,
    "{\"seq\":0,\"samples\":[{\"kind\":\"mark\",\"t\":1,\"name\":\"\\u00e4\\n\\ud83d\\ude00\"}]}",
    r#"{"seq":0,"samples":[{"kind":"steps","t":1.0000000000000000000001e1,"count":7e0}]}"#,
    r#"{"seq":0,"samples":[{"kind":"pressure","t":0.1,"hPa":1000.000000000000000000001}]}"#,
    r#" { "seq" : 0 , "samples" : [ { "t" : 1 , "kind" : "steps" , "count" : 0 } ] } "#,
    "\u{feff}{\"seq\":0,\"samples\":[]}",
    r#"{"seq":0,"samples":[{"kind":"steps","t":1,"count":-0}]}"#,
    r#"{"sessionId":"\"","seq":0,"samples":[{"kind":"steps","t":1,"count":1}]}"#,
    "[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]",
];

/// Returns the whole corpus.
pub(super) fn all() -> Vec<Vec<u8>> {
    let files = protox::compile(["porchlight.proto"], [env!("CARGO_MANIFEST_DIR")]).unwrap();
    let pool = DescriptorPool::from_file_descriptor_set(files).unwrap();
    let schema = pool.get_message_by_name("porchlight.v1.Batch").unwrap();
    let mut batches: Vec<_> = SAMPLES.map(|sample| vec![sample]).into();
    batches.push(SAMPLES.into());
    let mut corpus: Vec<_> = TEXTS.map(|text| text.as_bytes().to_vec()).into();
    for (seq, samples) in batches.into_iter().enumerate() {
        let text = format!(r#"{{"seq":{seq},"samples":[{}]}}"#, samples.join(","));
        let mut json = serde_json::Deserializer::from_str(&text);
        let message = DynamicMessage::deserialize(schema.clone(), &mut json).unwrap();
        corpus.push(message.encode_to_vec());
        let packed = json::decode_batch(text.as_bytes()).unwrap().batch;
        corpus.push(packed.as_bytes().to_vec());
        corpus.push(text.into_bytes());
    }
    corpus
}
