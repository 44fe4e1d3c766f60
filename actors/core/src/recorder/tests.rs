mod formats;
mod planning;
mod scanned;
mod sensor_logger;
