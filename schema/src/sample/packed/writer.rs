//! Builds packed batches.

use std::cell::RefCell;
use std::sync::Arc;

use super::column::{Column, OptionalColumn, put_number};
use super::{FORMAT, FORMAT_WITH_SKIPPED, PackedBatch};
use crate::limits::SAMPLE_T_MS_MAX;
use crate::sample::check::{self, Field};
use crate::sample::{
    Activity, ActivityType, FieldError, Imu, Kind, Location, Magnetic, Mark, Motion, Pressure,
    Provider, Sample, Steps, System, SystemName,
};

/// A fix with its values in whole parts of their units, as packed.
pub(in crate::sample) struct FixParts {
    pub(in crate::sample) lat: i64,
    pub(in crate::sample) lng: i64,
    pub(in crate::sample) accuracy_m: Option<i64>,
    pub(in crate::sample) altitude_m: Option<i64>,
    pub(in crate::sample) speed_mps: Option<i64>,
    pub(in crate::sample) bearing_deg: Option<i64>,
    pub(in crate::sample) mock: bool,
    pub(in crate::sample) provider: Option<Provider>,
}

/// Builds a packed batch: checks each sample against the ranges of contract section 9 and appends
/// it to its columns.
#[derive(Debug, Default)]
pub struct BatchBuilder {
    order: Vec<(Kind, u32)>,
    rows: [u32; Kind::ALL.len()],
    samples: u32,
    skipped: u32,
    t_max_ms: u32,
    t_ms: [Column; Kind::ALL.len()],
    location: LocationColumns,
    hpa: Column,
    count: Column,
    imu: ImuColumns,
    motion: MotionColumns,
    field_ut: [Column; 3],
    activity: [Column; 2],
    mark: MarkColumns,
    system: Column,
    /// The last packed batch, whose buffer is reused.
    packed: Vec<u8>,
}

thread_local! {
    static BUILDER: RefCell<BatchBuilder> = RefCell::default();
}

/// Larger thread-local buffers are released after use.
const KEPT_BYTES_MAX: usize = 256 * 1024;

/// Lends the thread's builder, empty, for decoding or packing `input_bytes` bytes, so that a batch
/// allocates only its packed form.
pub fn with_builder<T>(input_bytes: usize, read: impl FnOnce(&mut BatchBuilder) -> T) -> T {
    BUILDER.with_borrow_mut(|builder| {
        builder.clear();
        let batch = read(builder);
        if input_bytes > KEPT_BYTES_MAX {
            *builder = BatchBuilder::default();
        }
        batch
    })
}

#[derive(Debug, Default)]
struct LocationColumns {
    lat: Column,
    lng: Column,
    accuracy_m: OptionalColumn,
    altitude_m: OptionalColumn,
    speed_mps: OptionalColumn,
    bearing_deg: OptionalColumn,
    mock: OptionalColumn,
    provider: OptionalColumn,
}

#[derive(Debug, Default)]
struct ImuColumns {
    hz: Column,
    values: Column,
    accel: [Column; 3],
    has_gyro: Column,
    gyro: [Column; 3],
}

#[derive(Debug, Default)]
struct MotionColumns {
    accel_mean: Column,
    accel_std: Column,
    vertical_mean: OptionalColumn,
    cadence_hz: OptionalColumn,
    yaw_rad: OptionalColumn,
}

#[derive(Debug, Default)]
struct MarkColumns {
    length: Column,
    names: Vec<u8>,
}

fn optional(field: &Field, value: Option<f32>) -> Result<Option<i64>, FieldError> {
    value
        .map(|value| field.parts_of(f64::from(value)))
        .transpose()
}

fn number_of<T: PartialEq>(all: &[T], one: &T) -> i64 {
    all.iter()
        .position(|other| other == one)
        .unwrap_or_default() as i64
}

impl BatchBuilder {
    /// Appends `sample`; a sample with a value out of range changes nothing.
    pub fn push(&mut self, sample: &Sample<'_>) -> Result<(), FieldError> {
        let t_ms = sample.t_ms();
        if t_ms > SAMPLE_T_MS_MAX {
            check::T.check(f64::from(t_ms) / 1000.0)?;
        }
        match sample {
            Sample::Location(location) => return self.push_location(location),
            Sample::Pressure(Pressure { hpa, .. }) => {
                self.hpa.push(check::HPA.parts_of(f64::from(*hpa))?)
            }
            Sample::Steps(Steps { count, .. }) => {
                self.count.push(check::COUNT.parts_of(f64::from(*count))?)
            }
            Sample::Imu(imu) => self.imu.push(imu)?,
            Sample::Motion(motion) => self.motion.push(motion)?,
            Sample::Magnetic(Magnetic { field_ut, .. }) => {
                let [x, y, z] = field_ut.map(f64::from);
                let [of_x, of_y, of_z] = &check::FIELD_UT;
                let parts = [of_x.parts_of(x)?, of_y.parts_of(y)?, of_z.parts_of(z)?];
                self.field_ut
                    .iter_mut()
                    .zip(parts)
                    .for_each(|(column, parts)| column.push(parts));
            }
            Sample::Activity(Activity {
                activity_type,
                confidence,
                ..
            }) => {
                let confidence = check::CONFIDENCE.parts_of(f64::from(*confidence))?;
                self.activity[0].push(number_of(ActivityType::ALL, activity_type));
                self.activity[1].push(confidence);
            }
            Sample::Mark(Mark { name, .. }) => {
                check::mark_name(name)?;
                self.mark.length.push(name.len() as i64);
                self.mark.names.extend_from_slice(name.as_bytes());
            }
            Sample::System(System { name, .. }) => {
                self.system.push(number_of(SystemName::ALL, name));
            }
        }
        self.record_row(sample.kind(), i64::from(t_ms));
        Ok(())
    }

    /// Appends a fix given in whole parts that are within their ranges.
    #[inline(always)]
    pub(in crate::sample) fn push_fix(&mut self, t_ms: u32, fix: &FixParts) {
        let columns = &mut self.location;
        columns.lat.push(fix.lat);
        columns.lng.push(fix.lng);
        columns.accuracy_m.push(fix.accuracy_m);
        columns.altitude_m.push(fix.altitude_m);
        columns.speed_mps.push(fix.speed_mps);
        columns.bearing_deg.push(fix.bearing_deg);
        columns.mock.push(fix.mock.then_some(1));
        let provider = fix.provider;
        columns
            .provider
            .push(provider.map(|provider| number_of(Provider::ALL, &provider)));
        self.record_row(Kind::Location, i64::from(t_ms));
    }

    #[inline(always)]
    fn record_row(&mut self, kind: Kind, t_ms: i64) {
        self.t_ms[kind as usize].push(t_ms);
        self.rows[kind as usize] += 1;
        self.samples += 1;
        self.t_max_ms = self.t_max_ms.max(t_ms as u32);
        match self.order.last_mut() {
            Some((last, length)) if *last == kind => *length += 1,
            _ => self.order.push((kind, 1)),
        }
    }

    fn push_location(&mut self, location: &Location) -> Result<(), FieldError> {
        // Phones send a negative speed or bearing for "absent".
        let speed_mps = location.speed_mps.filter(|&speed| speed >= 0.0);
        let bearing_deg = location.bearing_deg.filter(|&bearing| bearing >= 0.0);
        let fix = FixParts {
            lat: check::LAT.parts_of(location.lat)?,
            lng: check::LNG.parts_of(location.lng)?,
            accuracy_m: optional(&check::ACCURACY_M, location.accuracy_m)?,
            altitude_m: optional(&check::ALTITUDE_M, location.altitude_m)?,
            speed_mps: optional(&check::SPEED_MPS, speed_mps)?,
            bearing_deg: optional(&check::BEARING_DEG, bearing_deg)?,
            mock: location.mock,
            provider: location.provider,
        };
        self.push_fix(location.t_ms, &fix);
        Ok(())
    }

    /// Clears the builder and keeps its buffers, so that reusing it allocates nothing per sample.
    pub fn clear(&mut self) {
        for kind in Kind::ALL {
            if std::mem::take(&mut self.rows[kind as usize]) > 0 {
                self.t_ms[kind as usize].clear();
                self.clear_kind(kind);
            }
        }
        self.order.clear();
        self.samples = 0;
        self.skipped = 0;
        self.t_max_ms = 0;
    }

    fn clear_kind(&mut self, kind: Kind) {
        match kind {
            Kind::Location => self.location.clear(),
            Kind::Pressure => self.hpa.clear(),
            Kind::Steps => self.count.clear(),
            Kind::Imu => self.imu.clear(),
            Kind::Motion => self.motion.clear(),
            Kind::Magnetic => self.field_ut.iter_mut().for_each(Column::clear),
            Kind::Activity => self.activity.iter_mut().for_each(Column::clear),
            Kind::Mark => {
                self.mark.length.clear();
                self.mark.names.clear();
            }
            Kind::System => self.system.clear(),
        }
    }

    /// Returns the number of samples.
    #[must_use]
    pub fn samples(&self) -> u32 {
        self.samples
    }

    /// Counts `samples` samples of an unknown kind that are left out.
    pub fn skip(&mut self, samples: u32) {
        self.skipped = self.skipped.saturating_add(samples);
    }

    /// Returns the packed form.
    #[must_use]
    pub fn pack(&mut self) -> PackedBatch {
        let mut out = std::mem::take(&mut self.packed);
        out.clear();
        out.push(if self.skipped == 0 {
            FORMAT
        } else {
            FORMAT_WITH_SKIPPED
        });
        put_number(&mut out, u64::from(self.samples));
        put_number(&mut out, u64::from(self.t_max_ms));
        if self.skipped > 0 {
            put_number(&mut out, u64::from(self.skipped));
        }
        put_number(&mut out, self.order.len() as u64);
        for &(kind, length) in &self.order {
            out.push(kind as u8);
            put_number(&mut out, u64::from(length));
        }
        for kind in Kind::ALL {
            if self.rows[kind as usize] > 0 {
                self.t_ms[kind as usize].finish(&mut out);
                self.finish_kind(kind, &mut out);
            }
        }
        let bytes = Arc::from(out.as_slice());
        self.packed = out;
        PackedBatch {
            bytes,
            samples: self.samples,
            t_max_ms: self.t_max_ms,
            skipped: self.skipped,
        }
    }

    fn finish_kind(&self, kind: Kind, out: &mut Vec<u8>) {
        match kind {
            Kind::Location => {
                let columns = &self.location;
                columns.lat.finish(out);
                columns.lng.finish(out);
                columns.accuracy_m.finish(out);
                columns.altitude_m.finish(out);
                columns.speed_mps.finish(out);
                columns.bearing_deg.finish(out);
                columns.mock.finish(out);
                columns.provider.finish(out);
            }
            Kind::Pressure => self.hpa.finish(out),
            Kind::Steps => self.count.finish(out),
            Kind::Imu => {
                let columns = &self.imu;
                columns.hz.finish(out);
                columns.values.finish(out);
                columns.accel.iter().for_each(|column| column.finish(out));
                columns.has_gyro.finish(out);
                columns.gyro.iter().for_each(|column| column.finish(out));
            }
            Kind::Motion => {
                let columns = &self.motion;
                columns.accel_mean.finish(out);
                columns.accel_std.finish(out);
                columns.vertical_mean.finish(out);
                columns.cadence_hz.finish(out);
                columns.yaw_rad.finish(out);
            }
            Kind::Magnetic => self.field_ut.iter().for_each(|column| column.finish(out)),
            Kind::Activity => self.activity.iter().for_each(|column| column.finish(out)),
            Kind::Mark => {
                self.mark.length.finish(out);
                put_number(out, self.mark.names.len() as u64);
                out.extend_from_slice(&self.mark.names);
            }
            Kind::System => self.system.finish(out),
        }
    }
}

impl LocationColumns {
    fn clear(&mut self) {
        self.lat.clear();
        self.lng.clear();
        for column in [
            &mut self.accuracy_m,
            &mut self.altitude_m,
            &mut self.speed_mps,
            &mut self.bearing_deg,
            &mut self.mock,
            &mut self.provider,
        ] {
            column.clear();
        }
    }
}

impl ImuColumns {
    fn clear(&mut self) {
        let Self {
            hz,
            values,
            accel,
            has_gyro,
            gyro,
        } = self;
        for column in [hz, values, has_gyro].into_iter().chain(accel).chain(gyro) {
            column.clear();
        }
    }

    fn push(&mut self, imu: &Imu<'_>) -> Result<(), FieldError> {
        let hz = check::HZ.parts_of(f64::from(imu.hz))?;
        let lengths = |axes: [&[f32]; 3]| axes.map(<[f32]>::len);
        let rate = check::Rate::Single(imu.hz);
        check::imu_lengths(rate, lengths(imu.accel), imu.gyro.map(lengths))?;
        let axes = check::ACCEL
            .iter()
            .zip(imu.accel)
            .chain(check::GYRO.iter().zip(imu.gyro.into_iter().flatten()));
        for (field, axis) in axes.clone() {
            field.check_values(axis)?;
        }
        self.hz.push(hz);
        self.values.push(imu.accel[0].len() as i64);
        self.has_gyro.push(i64::from(imu.gyro.is_some()));
        for ((field, axis), column) in axes.zip(self.accel.iter_mut().chain(&mut self.gyro)) {
            axis.iter()
                .for_each(|&value| column.push(check::rounded(f64::from(value) * field.parts)));
        }
        Ok(())
    }
}

impl MotionColumns {
    fn clear(&mut self) {
        self.accel_mean.clear();
        self.accel_std.clear();
        self.vertical_mean.clear();
        self.cadence_hz.clear();
        self.yaw_rad.clear();
    }

    fn push(&mut self, motion: &Motion) -> Result<(), FieldError> {
        let accel_mean = check::ACCEL_MEAN.parts_of(f64::from(motion.accel_mean))?;
        let accel_std = check::ACCEL_STD.parts_of(f64::from(motion.accel_std))?;
        let vertical_mean = optional(&check::VERTICAL_MEAN, motion.vertical_mean)?;
        let cadence_hz = optional(&check::CADENCE_HZ, motion.cadence_hz)?;
        let yaw_rad = optional(&check::YAW_RAD, motion.yaw_rad)?;
        self.accel_mean.push(accel_mean);
        self.accel_std.push(accel_std);
        self.vertical_mean.push(vertical_mean);
        self.cadence_hz.push(cadence_hz);
        self.yaw_rad.push(yaw_rad);
        Ok(())
    }
}
